# What a session has left, as stock git and the file system tell it. Arguments say what to show besides, or (no-…) not to show.

git=$CONFORMANCE_GIT
asked=" $* "

wants() {
    case $asked in
    *" no-$1 "*) return 1 ;;
    esac
}

asks() {
    case $asked in
    *" $1 "*) ;;
    *) return 1 ;;
    esac
}

show() {
    printf '[%s] %s\n' "$repository" "$1"
}

head_of() {
    wants refs || return
    show "$1"
    "$git" symbolic-ref HEAD || "$git" rev-parse --verify HEAD
}

# Refs and their logs.
refs_of() {
    head_of HEAD
    if wants refs; then
        show refs
        roots=--include-root-refs
        wants pseudorefs || roots=
        "$git" for-each-ref $roots --format='%(refname) %(objectname) %(symref)'
    fi
    wants logs || return
    if [ "$1" = reftable ]; then
        for ref in $("$git" reflog list); do
            [ "$ref" != HEAD ] || wants log-of-HEAD || continue
            show "log of $ref"
            "$git" log -g --format='%gD %H %gn %ge %gs' "$ref" --
        done
    else
        find "$GIT_DIR/logs" -type f 2>/dev/null | LC_ALL=C sort | while read -r log; do
            [ "$log" != "$GIT_DIR/logs/HEAD" ] || wants log-of-HEAD || continue
            show "$log"
            cat "$log"
        done
    fi
}

# git fsck, which would start a process each for a commit-graph and a multi-pack-index, also where there is none.
checked() {
    objects=$GIT_DIR/objects
    for derived in info/commit-graph info/commit-graphs info/alternates pack/multi-pack-index pack/multi-pack-index.d; do
        [ ! -e "$objects/$derived" ] || { "$git" fsck "$@"; return; }
    done
    "$git" -c core.commitGraph=false -c core.multiPackIndex=false fsck "$@"
}

objects_of() {
    if wants objects; then
        show objects
        "$git" cat-file --batch-all-objects --batch-check='%(objectname) %(objecttype) %(objectsize)'
    fi
    if asks packs; then
        show packs
        (cd "$GIT_DIR/objects" && find pack info -type f) | sed 's/-[0-9a-f]\{40,64\}/-ID/' | sort
    fi
    if asks loose; then
        show loose
        (cd "$GIT_DIR/objects" && find ?? -type f 2>/dev/null) | sort
    fi
    if wants fsck; then
        show fsck
        { checked --no-progress; echo "exit $?"; } | sort
    fi
}

# Configuration, and names of other files.
files_of() {
    if wants config; then
        show config
        cat "$GIT_DIR/config"
    fi
    wants files || return
    show files
    # Samples of hooks come from git's own template, which packrace does not look for.
    (cd "$GIT_DIR" && find . \( -name '*.sample' -o -path ./objects -o -path ./reftable -o -path ./worktrees \) -prune -o -type f -print | sort) |
        sed 's/sharedindex\.[0-9a-f]*/sharedindex.ID/' |
        if wants pseudorefs; then cat; else grep -v '/[A-Z_]*_HEAD$\|/AUTO_MERGE$'; fi
    show packed-refs
    cat "$GIT_DIR/packed-refs" 2>/dev/null
}

index_of() {
    wants index || return
    [ -f "$GIT_DIR/index" ] || return
    show index
    "$git" ls-files -s -v --resolve-undo
}

find . -name HEAD -type f | LC_ALL=C sort | while read -r head; do
    GIT_DIR=${head%/HEAD}
    export GIT_DIR
    repository=$GIT_DIR
    if [ -f "$GIT_DIR/commondir" ]; then
        head_of 'HEAD of a linked work tree'
        index_of
    elif [ -d "$GIT_DIR/objects" ] && [ -d "$GIT_DIR/refs" ]; then
        format=files
        [ ! -d "$GIT_DIR/reftable" ] || format=reftable
        refs_of "$format"
        objects_of
        files_of
        index_of
    fi
done 2>&1

repository=work
if wants work; then
    show tree
    find . -type d \( -name .git -o -name '*.git' \) -prune -o \( -type f -o -type l \) -print | LC_ALL=C sort | while read -r file; do
        case $file in
        *.pack | *.idx | *.rev | *.bitmap | *.mtimes) ;;
        */.git) cat "$file" ;;
        *)
            if [ -L "$file" ]; then
                echo "$file -> $(readlink "$file")"
            else
                [ ! -x "$file" ] || printf 'x '
                cksum "$file"
            fi
            ;;
        esac
    done
    # Names of packs depend on how they were made.
    find . -type d \( -name .git -o -name '*.git' \) -prune -o -type f \( -name '*.pack' -o -name '*.idx' -o -name '*.rev' -o -name '*.bitmap' -o -name '*.mtimes' \) -print |
        sed 's/-[0-9a-f]\{40,64\}/-ID/' | LC_ALL=C sort
fi

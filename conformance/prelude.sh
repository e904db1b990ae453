# What sessions begin with. They use `stock`, git alone, for what they need and are not about.

stock() {
    "$CONFORMANCE_GIT" "$@"
}

# A minute passes.
tick() {
    seconds=$((${seconds:-1112912053} + 60))
    GIT_AUTHOR_DATE="$seconds -0700"
    GIT_COMMITTER_DATE="$seconds -0700"
    export GIT_AUTHOR_DATE GIT_COMMITTER_DATE
}

# repository [DIRECTORY]
repository() {
    stock init -q "${1-.}"
}

# commit NAME: a commit of this message that changes a file of this name.
commit() {
    tick
    echo "$1" >"$1"
    stock add -- "$1" && stock commit -q -m "$1"
}

# lost_commit: a repository with a commit, $lost, that is in a pack and that nothing reaches.
lost_commit() {
    history 3
    commit one
    lost=$(stock rev-parse HEAD)
    stock repack -adq
    stock reset -q --hard HEAD~1
    stock reflog expire --expire=now --all
}

# lose OBJECT: it is gone, and all others are in one pack.
lose() {
    stock repack -adq
    mv .git/objects/pack/*.pack whole.pack
    rm -f .git/objects/pack/*
    stock unpack-objects -q <whole.pack
    rm -f whole.pack ".git/objects/$(echo "$1" | sed 's|..|&/|')"
    find .git/objects/?? -type f | sed 's|.*/\(..\)/|\1|' | stock pack-objects -q .git/objects/pack/pack >/dev/null
    stock prune-packed
}

# sparse_tree: a work tree with a sparse index, in which the directories out, out2 and out3 stand for their files.
sparse_tree() {
    mkdir -p in/deep out/sub out2 out3/x
    for file in in/a in/deep/b out/b out/sub/c out2/d out3/x/e top; do echo $file >$file; done
    repository
    stock add .
    stock commit -q -m one
    stock config advice.sparseIndexExpanded false
    stock sparse-checkout set --cone --sparse-index in
}

# sparse_state: how its index is written, and what that means.
sparse_state() {
    stock ls-files --sparse --stage -t
    grep -c sdir .git/index
    stock write-tree
    stock status --short
}

# monitored_tree FILE...: a work tree of these and a, b and c, whose monitor names what is in .git/changed.
monitored_tree() {
    mkdir d
    for file in a b c "$@"; do echo $file >$file; done
    touch -d 2005-01-01 a b c "$@"
    repository
    stock add .
    stock commit -q -m one
    printf '#!/bin/sh\nprintf "token\\0"\ntr "\\n" "\\0" <.git/changed\n' >.git/monitor
    chmod +x .git/monitor
    : >.git/changed
    stock config core.fsmonitor .git/monitor
}

# conflict: a repository in the middle of a merge, in which dir1/file1 is unmerged.
conflict() {
    history 2
    stock checkout -q -b other
    echo theirs >dir1/file1
    stock commit -q -a -m theirs
    stock checkout -q main
    echo ours >dir1/file1
    stock commit -q -a -m ours
    stock merge other >/dev/null 2>&1
}

# packed REVISION...: the objects of a pack of what they reach.
packed() {
    echo "$*"
    printf '%s\n' "$@" | git pack-objects --revs -q --stdout >p.pack
    git index-pack p.pack >/dev/null 2>&1 || echo needs other packs
    git show-index <p.idx | cut -d' ' -f2 | sort
    rm -f p.*
}

# proc_receive DIRECTORY ANSWERS: a bare repository whose hook proc-receive answers so for refs/for, with `pkt LINE` for each line.
proc_receive() {
    stock init -q --bare "$1"
    stock -C "$1" config receive.procReceiveRefs refs/for
    mkdir -p "$1/hooks"
    {
        echo '#!/bin/sh'
        echo 'pkt() { printf "%04x%s" $((${#1} + 4)) "$1"; }'
        echo 'cat >/dev/null &'
        echo "pkt version=1; printf 0000; sleep .3; $2; printf 0000"
    } >"$1/hooks/proc-receive"
    chmod +x "$1/hooks/proc-receive"
}

# fetched_from DIRECTORY SHALLOW: what a clone of it, and a shallow clone that is completed from it, have then.
fetched_from() {
    git clone -q --bare "file://$PWD/$1" clone 2>/dev/null
    git -C "$2" fetch -q --unshallow 2>/dev/null
    for repository in clone "$2"; do
        stock -C "$repository" rev-list --objects --all | sort
        stock -C "$repository" fsck
    done
    rm -rf clone "$2"
}

# partial COUNT DIRECTORY: such a history, of which partial clones can be made.
partial() {
    history "$1" "$2"
    stock -C "$2" config uploadpack.allowFilter true
    stock -C "$2" config uploadpack.allowAnySHA1InWant true
}

# history COUNT [DIRECTORY]: a repository in which so many commits change files of a few directories, one file each.
history() {
    repository "${2-.}"
    number=0
    while [ "$number" -lt "$1" ]; do
        number=$((number + 1))
        message="Change $number"
        echo 'commit refs/heads/main'
        echo "author A U Thor <author@example.com> $((1112912053 + number * 60)) -0700"
        echo "committer C O Mitter <committer@example.com> $((1112912053 + number * 60)) -0700"
        printf 'data %s\n%s\n' "${#message}" "$message"
        text=$(printf 'line %s\n' 1 2 3 4 5 6 7 8 "$number")
        echo "M 100644 inline dir$((number % 3))/file$((number % 5))"
        printf 'data %s\n%s\n\n' "${#text}" "$text"
    done | stock -C "${2-.}" fast-import --quiet
    stock -C "${2-.}" reset -q --hard
}

# chain DIRECTORY: how many packs and objects each file has of a chain of multi-pack-indexes there.
chain() {
    for sum in $(cat "$1/multi-pack-index.d/multi-pack-index-chain"); do
        file="$1/multi-pack-index.d/multi-pack-index-$sum.midx"
        # The number of packs; the table of chunks has the fan-out second; its last row is the number of objects.
        packs=$(bytes "$file" 8 4)
        echo "packs $((packs)) objects $(($(bytes "$file" $(($(bytes "$file" 28 8) + 1020)) 4)))"
    done
}

# bytes FILE OFFSET COUNT: a number in hexadecimal.
bytes() {
    echo "0x$(od -An -v -tx1 -j "$2" -N "$3" "$1" | tr -d ' \n')"
}

# well_used: a repository with all that git keeps in one. It is made once for all sessions of a run, which copy it.
well_used() {
    kept=$CONFORMANCE_EXEC/$GIT_DEFAULT_REF_FORMAT-$GIT_DEFAULT_HASH
    if [ ! -d "$kept" ]; then
        making=$(mktemp -d "$CONFORMANCE_EXEC/making.XXXXXX")
        (cd "$making" && make_well_used) >/dev/null 2>&1
        mv -T "$making" "$kept" 2>/dev/null || rm -rf "$making"
    fi
    cp -a "$kept/." .
    # It names the place in which it was made.
    echo "gitdir: $PWD/.git/worktrees/linked" >linked/.git
    echo "$PWD/linked/.git" >.git/worktrees/linked/gitdir
}

make_well_used() {
    partial 6 .
    stock tag -m words annotated HEAD~1
    stock update-ref refs/remotes/origin/main HEAD~2
    stock symbolic-ref refs/remotes/origin/HEAD refs/remotes/origin/main
    stock remote add origin ./far
    stock branch -q -u origin/main main
    stock repack -adbq
    echo lost | stock hash-object -w --stdin
    stock repack --cruft -dbq
    commit one
    stock branch old HEAD~2
    stock pack-refs --all
    stock repack -dq
    stock multi-pack-index write --bitmap
    stock commit-graph write --reachable --changed-paths
    commit two
    stock branch side HEAD~1
    stock tag -m words loose
    stock symbolic-ref refs/heads/link refs/heads/side
    stock worktree add -q linked side
    echo x >dir1/file1
    stock stash push -q
    echo y >dir2/file2
    stock stash push -q
    echo HEAD | stock pack-objects -q --revs --stdout >.git/in.pack
    stock clone -q . far && (cd far && stock checkout -q -b far HEAD~1 && commit far && stock bundle create -q ../.git/far.bundle refs/heads/far)
    rm -rf far .git/hooks
    echo changed >dir1/file1
    echo staged >staged
    stock add staged
    echo new >new
}

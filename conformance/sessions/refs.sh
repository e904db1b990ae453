# Refs as they are stored.

## from files to reftables and back
# differs: refs are written into packed-refs, as by git 2.48
history 3
stock branch a HEAD~1
stock tag -a -m note v1
rm -r .git/logs
git refs migrate --ref-format=reftable
git for-each-ref
git rev-parse --show-ref-format
git refs migrate --ref-format=files
git for-each-ref

## with symbolic refs and a detached HEAD
history 2
stock symbolic-ref refs/remotes/origin/HEAD refs/remotes/origin/main
stock checkout -q --detach HEAD~1
rm -r .git/logs
git refs migrate --ref-format=reftable
git for-each-ref --include-root-refs --format='%(refname) %(symref)'

## where nothing is to be done
# exits: 255 255 129 129
# masks: usage
history 1
git refs migrate --ref-format=files
git refs migrate --ref-format=nothing
git refs migrate
git refs migrate --bogus

## reflogs come along
# needs git: 2.48
history 1
commit one
git refs migrate --ref-format=reftable

## verified
# differs: words are those of git 2.55, which says and finds more
# in: files reftable
history 2
git refs verify
git refs verify --strict --verbose

## damage is told
# differs: words are those of git 2.55, which says and finds more
# exits: 255 255
# state: no-fsck
history 2
echo nothing >.git/refs/heads/bad
mkdir -p .git/refs/heads/x
cp .git/refs/heads/main '.git/refs/heads/x/a b'
git refs verify
git refs verify --strict

## subcommands that there are not
# masks: usage
# exits: 129 129
history 1
git refs
git refs nothing

## verify, targets of symbolic refs
# in: files reftable
# needs git: 2.55
# exits: 255 255
history 1
for target in main-worktree/HEAD worktrees/wt/HEAD worktrees/x ORIG_HEAD A-B_HEAD foo/bar FETCH_HEAD Foo refs/heads/none; do
    stock symbolic-ref refs/heads/link "$target"
    echo "$target"
    git refs verify
done

## verify, contents of loose refs
# needs git: 2.55
# exits: 255 255 255
# masks: order
# state: no-fsck
history 1
id=$(stock rev-parse HEAD)
loose() { printf "$2" >".git/refs/heads/$1"; }
loose bare 'ref: refs/heads/main'
loose space 'ref: refs/heads/main '
loose spaces 'ref: refs/heads/main   '
loose lines 'ref: refs/heads/main\n\n'
loose name 'ref: refs/heads/.x  '
loose wrong "${id}x\n"
loose more "$id x\n"
loose id "$id"
loose .dot "$id\n"
loose ok.lock "$id\n"
loose .x.lock ''
git refs verify
git -c fsck.badRefContent=warn -c fsck.badRefName=ignore -c fsck.refMissingNewline=error refs verify
git refs verify --strict

## verify, symbolic links
# in: files
# needs git: 2.55
# exits: 255
# masks: order
# state: no-fsck
history 1
ln -s main .git/refs/heads/near
ln -s ../../logs/x .git/refs/heads/logs
ln -s ../../config .git/refs/heads/config
ln -s ../../refs/tags/.x .git/refs/heads/dot
ln -s ../../HEAD .git/refs/heads/head
git refs verify

## verify, packed-refs
# needs git: 2.55
# exits: 255 255 255 255
# state: no-fsck
history 1
id=$(stock rev-parse HEAD)
packed() { printf "$1" >.git/packed-refs; git refs verify; }
packed "# pack-refs with:sorted\n$id refs/heads/z\n"
packed "# pack-refs with: sorted\n$id refs/heads/z\n$id refs/heads/b\n$id refs/heads/a\n"
packed "${id}x refs/heads/z\n$id  refs/heads/y\n$id\n$id HEAD\n$id refs/heads/x\n^$id more\n^$id\n"
rm .git/packed-refs
ln -s HEAD .git/packed-refs
git refs verify
rm .git/packed-refs

## verify, refs of work trees
# needs git: 2.55
# exits: 255 255
# masks: order
# state: no-fsck
history 1
git worktree add -q ../wt
stock -C ../wt update-ref refs/worktree/x HEAD
git refs verify --verbose 2>&1 | grep -v packed-refs | sort
printf bad >.git/worktrees/wt/refs/worktree/y
git refs verify
rm .git/worktrees/wt/refs/worktree/y
echo 'ref: refs/heads/../x' >.git/worktrees/wt/HEAD
git -C ../wt refs verify
rm -r .git/worktrees ../wt

## verify, reftables of work trees
# needs git: 2.55
# in: reftable
# exits: 255 255 255
# state: no-fsck
history 2
stock worktree add -q -b side ../wt
stock -C ../wt symbolic-ref refs/bisect/link refs/heads/side
list=.git/worktrees/wt/reftable/tables.list
cp "$list" list
echo nothing >"$list"
for dir in . ../wt; do
    git -C "$dir" refs verify
done
cp list "$list"
stock -C ../wt pack-refs --all
table=.git/worktrees/wt/reftable/$(cat "$list")
chmod u+w "$table"
sed 's,refs/heads/side,xefs/heads/side,g' "$table" >list
cat list >"$table"
git refs verify
rm -r ../wt list .git/worktrees

## exists, a bad name
# in: files
# needs git: 2.55
# exits: 2 1
# state: no-fsck
history 1
echo nothing >.git/refs/heads/broken
cp .git/refs/heads/main .git/refs/heads/a..b
git refs exists refs/heads/a..b
git show-ref --exists refs/heads/a..b
git refs exists refs/heads/a..c
git refs exists refs/heads/broken
rm .git/refs/heads/a..b

## refs without objects are skipped if the user wants it
# in: files
# exits: 128 128
# state: no-fsck
history 3
echo 1111111111111111111111111111111111111111 >.git/refs/heads/missing
git repack -adq 2>/dev/null
git pack-objects --all --stdout </dev/null 2>/dev/null
export GIT_REF_PARANOIA=0
git for-each-ref
git show-ref
git pack-objects --all --stdout </dev/null | stock index-pack --stdin --strict >/dev/null
git repack -adq 2>/dev/null
git for-each-ref refs/heads/missing
unset GIT_REF_PARANOIA
rm .git/refs/heads/missing

## broken refs are shown to clients, which would take them for deleted
# in: files
# exits: 128 128 128
# state: no-fsck
history 3
stock branch topic
stock branch other
stock symbolic-ref refs/heads/link refs/heads/topic
stock pack-refs --all
stock clone -q --mirror . mirror.git
echo nothing >.git/refs/heads/topic
cp .git/refs/heads/topic '.git/refs/heads/odd name'
cp .git/refs/heads/topic .git/refs/tags/zz
for version in 0 2; do
    git -c protocol.version=$version ls-remote . 2>/dev/null
    git -c protocol.version=$version ls-remote . 'refs/tags/*' 2>/dev/null
    GIT_REF_PARANOIA=0 git -c protocol.version=$version ls-remote . 2>/dev/null
done
git clone -q --no-local . new 2>/dev/null
git -C mirror.git fetch -q --prune 2>/dev/null
git -C mirror.git fetch -q origin topic 2>/dev/null
git -C mirror.git fetch -q origin main 2>/dev/null
stock -C mirror.git for-each-ref
rm .git/refs/heads/topic '.git/refs/heads/odd name' .git/refs/tags/zz

## broken refs are skipped if the user wants it
# in: files
# exits: 128
# state: no-fsck
history 3
echo nothing >.git/refs/heads/broken
git repack -adq 2>/dev/null
export GIT_REF_PARANOIA=no
git for-each-ref 2>/dev/null
git repack -adq 2>/dev/null
rm .git/refs/heads/broken

## a backend of the environment
# needs git: 2.54
# in: files
# exits: 128 128
history 2
GIT_REFERENCE_BACKEND=files git for-each-ref
GIT_REFERENCE_BACKEND=other git for-each-ref
GIT_REFERENCE_BACKEND= git for-each-ref

## refs in another place, by the configuration
# needs git: 2.55
# state: no-config
# masks: order
# exits: 2
mkdir elsewhere tables
GIT_REFERENCE_BACKEND="files://$PWD/elsewhere" git init -q
git config extensions.refStorage
cat .git/HEAD .git/refs/heads elsewhere/HEAD
commit=$(stock commit-tree -m one "$(stock write-tree)")
git update-ref refs/heads/main "$commit"
git update-ref -m 'a reason' refs/heads/other "$commit"
git symbolic-ref refs/heads/sym refs/heads/other
git for-each-ref
git show-ref --exists refs/heads/none
find elsewhere -type f | sort
git pack-refs --all
cat elsewhere/packed-refs elsewhere/logs/refs/heads/other
git reflog list
git reflog expire --expire=now --all
git update-ref -d refs/heads/other
stock worktree add -q tree main~0
cd tree
git update-ref refs/bisect/bad HEAD
git for-each-ref
git for-each-ref worktrees/tree
git rev-parse worktrees/tree/HEAD
cd ..
git for-each-ref --format='%(refname) %(worktreepath)' | sed 's, /.*/, ,'
find elsewhere .git -name 'bad*' -o -name 'packed-refs' | sort
git repack -adq
git refs verify
cat .git/HEAD .git/refs/heads

## refs in another place, by a variable
# needs git: 2.55
# exits: 128 128 128 128 128
history 2
mkdir elsewhere
cp -r .git/refs .git/HEAD elsewhere
ls elsewhere
for place in "files://$PWD/elsewhere" files://../elsewhere files:// "reftable://$PWD/elsewhere"; do
    GIT_REFERENCE_BACKEND=$place git for-each-ref
    GIT_REFERENCE_BACKEND=$place git update-ref refs/heads/new refs/heads/main
    GIT_REFERENCE_BACKEND=$place git for-each-ref
done
for place in files: files:/x other://x://y ://; do
    GIT_REFERENCE_BACKEND=$place git for-each-ref
    git -c "extensions.refStorage=$place" for-each-ref
done
git for-each-ref
ls elsewhere

## refs in another place are migrated there
# needs git: 2.55
# state: no-config
# exits: 255
mkdir elsewhere
GIT_REFERENCE_BACKEND="files://$PWD/elsewhere" git init -q
commit=$(stock commit-tree -m one "$(stock write-tree)")
git update-ref refs/heads/main "$commit"
git tag light
git refs migrate --ref-format=files
git refs migrate --ref-format=reftable
git config extensions.refStorage | sed 's,://.*/,://,'
stock for-each-ref
ls elsewhere/reftable | wc -l
rm -rf elsewhere/refs elsewhere/HEAD
git refs migrate --ref-format=files
git config extensions.refStorage | sed 's,://.*/,://,'
stock for-each-ref
git reflog list
GIT_REFERENCE_BACKEND="files://$PWD/.git" git upload-pack --advertise-refs . | tr -d '\0' | sed -n '1s/^....\([0-9a-f]*\) .*/\1/p'

## new repositories with reftables in another place
# needs git: 2.55
# state: no-config no-work
# exits: 128
mkdir elsewhere
export GIT_REFERENCE_BACKEND="reftable://$PWD/elsewhere"
git init -q a
cd a
commit=$(git commit-tree -m one "$(git write-tree)")
git update-ref HEAD "$commit"
unset GIT_REFERENCE_BACKEND
git for-each-ref
git log --format=%s
git init -q
git init -q --ref-format=files
ls ../elsewhere

## where a dry run leaves refs
# needs git: 2.55
# state: no-files
history 1
mkdir below
for place in . below .git; do
    (cd "$place" && git refs migrate --dry-run --ref-format=reftable | sed 's/migration\..*/migration/')
done
git --git-dir=.git refs migrate --dry-run --ref-format=reftable | sed 's/migration\..*/migration/'
rm -rf .git/ref_migration*

## who holds a lock
# needs git: 2.55
# exits: 128 128 128
history 1
git config core.lockfilePid true
cat >.git/hooks/reference-transaction <<'EOF'
#!/bin/sh
test "$1" = prepared && find .git/refs .git/reftable -name '*lock' 2>/dev/null | sed 's/pid[.]lock/pid/' | sort
exit 0
EOF
chmod +x .git/hooks/reference-transaction
git update-ref refs/heads/new HEAD
find .git -name '*lock'
for holder in '1\n' '2147483647\n' 2147483647; do
    printf "pid $holder" >.git/index~pid.lock
    : >.git/index.lock
    git update-index --add --cacheinfo 100644,$(stock rev-parse HEAD:dir1/file1),x
done
rm .git/index*lock

## tags that a migration has not peeled
# needs git: 2.55
# state: no-logs
stock init -q --ref-format=reftable
commit one
stock tag -a -m x v1
stock refs migrate --ref-format=files
git show-ref -d
git for-each-ref --format='%(refname) %(*objectname)'
git for-each-ref --points-at=HEAD
git upload-pack --advertise-refs . | tr -d '\0' | grep -a '{}'
stock init -q clone
cd clone
git fetch -q .. main
git for-each-ref

## dates of authors and committers in many forms
repository
tree=$(git write-tree)
show() {
    git commit-tree -m x "$tree" >id && stock log -1 --format='%ad|%cd' --date=raw "$(cat id)"
}
for date in '1112911993 +0060' '@1 +9999' '@1 -0090' '7 Apr 2005 22:13:13 CEST' '7 Apr 2005 22:13:13 pdt' \
    '7 Apr 2005 22:13:13Z' 'Thu Apr 7 22:13:13 2005' '2005-04-07 22:13:13 PDT' '2005.04.07 22:13:13 EST' \
    '04/07/2005 22:13 -0500' '4/7/2005 1:2:3' '31/12/2005 1:2:3' '4.1.2005 10:00:00' '07.04.2005 22:13:13 +0200' \
    '2005/04/07 22:13' '10:00 7 April 2005' '2005-04-07T22:13:13,5+02' '2005-04-07T22:13:13.019-05:30' \
    '20050407T221313' '20050407 2213 10:00' '7th April 2005 10:13 pm' '7 Apr 05 10:00' '4/7/99 10:00' \
    'April 7, 2005 24:00' '30 Feb 2005 10:00' '10:00 Apr 2005' '7 Apr 2005 10:00 foo +2400' \
    '7 Apr 2005 10:00 CET PDT +0530' '2099-12-31 23:59:59 +0000' '1112911993 CEST' '7 Apr 2005 10:00 0530'; do
    GIT_AUTHOR_DATE=$date show
    GIT_COMMITTER_DATE=$date TZ=EST5 show
done

## dates of authors and committers that are none
# exits: 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128
repository
tree=$(git write-tree)
for date in '-1 +0000' '@-1 +0000' 1969-12-31T23:59:59Z 1960-01-01T00:00:00Z '1 +9999' '1 +000' '@1 +000' \
    '99999999999 +0000' '253402300800 +0000' '9223372036854775807 +0000' '2100-01-01 00:00 +0000' \
    '@18446744073709551615 +0000' 2005-04-07 '7 Apr 2005' '10:00' '7-Apr-2005 10:00' '2005-04-32 10:00' \
    yesterday '2 weeks ago'; do
    GIT_AUTHOR_DATE=$date git commit-tree -m x "$tree"
done

## dates of authors and committers beyond the limits of git in their zones
# needs git: 2.55
# exits: 128 128
repository
tree=$(git write-tree)
for date in '2099-12-31 23:59:59 -0100' '1970-01-01 00:59 +0100'; do
    GIT_AUTHOR_DATE=$date git commit-tree -m x "$tree"
done

## entries of reflogs by dates in many forms
# exits: 128 128 128
repository
commit one
commit two
commit three
for date in 'Thu Apr 7 22:15:30 2005' '10:00 8 April 2005' '07.04.2005 22:16' '2005-04-07 17:16:30 EST' \
    '7/4/2005 22:15' 'noon 8 Apr 2005' 'Apr 9 2005' '9.4.2005' 'noon yesterday' 'yesterday noon' \
    '10:00 yesterday' yesterday.midnight 'last friday' 'tea last Monday' 'last wed at noon' noon midnight \
    '10:00 7 April 2005' 'Apr 5 2005'; do
    git update-ref refs/heads/found "main@{$date}"
    stock log -1 --format=%s found
done
for date in friday foo EST; do
    git update-ref refs/heads/found "main@{$date}"
done

## the hook of transactions, of a migration
# needs git: 2.55
# state: no-files
# exits: 128 128
history 2
stock branch side
stock symbolic-ref refs/heads/alias refs/heads/side
rm -r .git/logs
cat >.git/hooks/reference-transaction <<'EOF'
#!/bin/sh
echo "$1" && cat && test "$1" != "$(cat refused)"
EOF
chmod +x .git/hooks/reference-transaction
echo none >refused
git refs migrate --ref-format=reftable
git refs migrate --ref-format=files
for refused in preparing prepared; do
    echo $refused >refused
    git refs migrate --ref-format=reftable
done
rm -rf .git/ref_migration.*

## a symbolic ref to nothing can be mended
# in: files
# exits: 1 128 128 1 1
history 2
ref=refs/heads/none
damage() {
    echo 'ref: ' >.git/$ref
}
damage
git for-each-ref
git show-ref none
git show-ref --exists $ref
git symbolic-ref $ref
git update-ref $ref HEAD
git update-ref -d $ref
git update-ref -d $ref HEAD
git symbolic-ref $ref refs/heads/main
cat .git/$ref
damage
git symbolic-ref -d $ref
damage
git update-ref --no-deref $ref HEAD
cat .git/$ref
damage
git update-ref --no-deref -d $ref
git for-each-ref

## a ref of zeros can be mended
# in: files
# exits: 1 128
history 2
ref=refs/heads/zeros
zeros=$(stock rev-parse HEAD | tr '[:xdigit:]' 0)
damage() {
    echo $zeros >.git/$ref
}
damage
git update-ref -d $ref HEAD
git update-ref $ref HEAD HEAD~1
git update-ref $ref HEAD $zeros
damage
git update-ref $ref HEAD
damage
git update-ref -d $ref
git for-each-ref

## broken refs are only told of in lists
# in: files
# exits: 128 128 128 128 128 128
# state: no-fsck
history 2
echo nothing >.git/refs/heads/broken
stock symbolic-ref refs/heads/alias refs/heads/broken
git for-each-ref
git show-ref
git show-ref --verify refs/heads/broken
git symbolic-ref refs/heads/broken
git symbolic-ref refs/heads/alias
git symbolic-ref --no-recurse refs/heads/alias
git symbolic-ref -d refs/heads/broken
git update-ref refs/heads/new broken
git pack-refs --all
git symbolic-ref -d refs/heads/alias
rm .git/refs/heads/broken

## verify, lines that do not end
# needs git: 2.55
# exits: 255 255 255 255 255 255
# state: no-fsck
history 1
id=$(stock rev-parse HEAD)
packed() { printf "$1" >.git/packed-refs; git refs verify; }
packed x
packed '# foo'
packed "# pack-refs with: \nx"
packed "$id refs/heads/a..b"
packed "$id refs/heads/a\n^x"
packed "# pack-refs with: sorted \n$id refs/heads/b\n$id refs/heads/a"
rm .git/packed-refs

## verify, control characters
# needs git: 2.55
# exits: 255 255
# state: no-fsck
history 1
id=$(stock rev-parse HEAD)
printf "$id\r\n" >.git/refs/heads/a
printf "$id\001\n" >.git/refs/heads/b
git refs verify 2>&1 | sort
git refs verify 2>/dev/null
rm .git/refs/heads/[ab]

## verify, links that lead nowhere
# needs git: 2.55
# exits: 128 128 128 128 128 128 128 128
# state: no-fsck
history 1
link() {
    ln -s "$1" .git/refs/heads/x
    git refs verify 2>&1 | sed "s,$PWD,HERE,"
    git refs verify 2>/dev/null
    rm .git/refs/heads/x
}
link x
link refs/heads/main
link ../../none/x
link ../x/../heads/main
link none

## refs to leave out are left out of what others see, too
# in: files
# needs git: 2.55
# state: no-fsck no-objects
history 3
echo 1111111111111111111111111111111111111111 >.git/refs/heads/missing
echo nothing >.git/refs/heads/broken
cp .git/refs/heads/main .git/refs/heads/a..b
export GIT_REF_PARANOIA=0
git for-each-ref
git for-each-ref --contains main
git show-ref
git refs list
git upload-pack --advertise-refs . 2>&1 >/dev/null
git receive-pack --advertise-refs . 2>&1 >/dev/null
git ls-remote . 2>/dev/null
git commit-graph write --reachable
git pack-objects --all --stdout </dev/null 2>&1 >/dev/null
rm .git/refs/heads/missing .git/refs/heads/broken .git/refs/heads/a..b

## broken refs and refs to nothing, told by those who list them
# in: files
# needs git: 2.55
# state: no-fsck no-objects
# exits: 128 128 128 128 128 128 128
history 3
stock branch a
echo 1111111111111111111111111111111111111111 >.git/refs/heads/missing
git for-each-ref
git for-each-ref --sort=refname
git for-each-ref --format='%(refname) %(objecttype)' refs/heads
git pack-objects --all --stdout </dev/null
git repack -adq
rm .git/refs/heads/missing
echo nothing >.git/refs/heads/broken
git for-each-ref
git commit-graph write --reachable
git upload-pack --advertise-refs . 2>&1 >/dev/null
git pack-objects --all --stdout </dev/null
GIT_REF_PARANOIA=maybe git commit-graph write --reachable
GIT_REF_PARANOIA=maybe git commit-graph write
rm .git/refs/heads/broken

## links that lead to themselves
# in: files
# exits: 128 1 128 1 128
# state: no-fsck
history 2
ln -s self .git/refs/heads/self
ln -s two .git/refs/heads/one
ln -s one .git/refs/heads/two
git for-each-ref
git show-ref
git symbolic-ref refs/heads/self
git show-ref --exists refs/heads/one
git update-ref refs/heads/self HEAD
git update-ref -d refs/heads/two
git show-ref --verify refs/heads/one
ls .git/refs/heads
rm .git/refs/heads/self .git/refs/heads/one .git/refs/heads/two

## exists, list, optimize
# needs git: 2.55
# masks: usage
# exits: 2 2 128 128 129
history 4
stock branch other HEAD~2
git refs exists refs/heads/main
git refs exists refs/heads/none
git refs exists HEAD
git refs exists refs/heads
git refs exists
git refs exists a b
git refs list
git refs list --count=1 --sort=-refname --format='%(refname:short)' 'refs/heads/*'
git refs list --points-at=HEAD
git refs optimize
cat .git/packed-refs
stock branch third
git refs optimize --include='refs/heads/t*' --no-prune
git refs optimize --auto
git refs optimize more

## what is traced of refs
# needs git: 2.55
# in: files reftable
# exits: 128 128 128 128 2
history 2
traced() {
    echo "$*"
    GIT_TRACE_BARE=1 GIT_TRACE_REFS=$PWD/lines git "$@"
    # Of reftables, git shows a type of refs that it has not set.
    grep -E "${which:-transaction|finish|->|^\}|optimize}" lines | sed 's/type [0-9a-f]*:/type:/'
    rm -f lines
}
first=$(stock rev-parse HEAD~1) second=$(stock rev-parse HEAD)
traced update-ref -m why refs/heads/a "$second"
traced update-ref refs/heads/main "$first"
traced update-ref --no-deref HEAD "$first"
traced symbolic-ref HEAD refs/heads/main
traced update-ref refs/heads/a "$first" "$first"
traced update-ref refs/heads/a/b "$first"
traced update-ref -d refs/heads/a "$second"
traced update-ref HEAD "$second"
printf 'symref-create refs/heads/s refs/heads/main\ncreate refs/heads/c HEAD\nupdate refs/heads/d HEAD~1\n' | traced update-ref --stdin
printf 'create refs/heads/c HEAD\n' | traced update-ref --stdin
printf 'delete refs/heads/nope %s\n' "$first" | traced update-ref --stdin
printf 'create refs/heads/c HEAD\nupdate refs/heads/d HEAD\n' | traced update-ref --stdin --batch-updates
traced update-ref refs/heads/s "$first"
traced update-ref -d HEAD
stock symbolic-ref -d refs/heads/s
traced pack-refs --all
which='refs/heads/[cd]'
traced show-ref --verify refs/heads/c
traced refs exists refs/heads/d
traced show-ref --exists refs/heads/nothing
which=iterator
traced show-ref --branches
which='iterator|refs/heads/'
traced for-each-ref --format='%(refname)' refs/heads/c

## names that several refs have
history 3
stock tag side HEAD~1
stock branch side HEAD~2
git update-ref refs/heads/x side
git update-ref refs/heads/x side~1
git -c core.warnAmbiguousRefs=false update-ref refs/heads/x side
git for-each-ref --format='%(refname)' --contains side
stock update-ref refs/heads/HEAD HEAD~1
git update-ref refs/heads/y HEAD
git commit-tree -m x -p side 'HEAD^{tree}'
echo side | git pack-objects --revs --stdout -q | wc -c >size
rm size

## what is traced of names and reflogs
# needs git: 2.55
# in: files reftable
history 3
stock tag -a -m tag v1
stock branch side HEAD~1
traced() {
    echo "$*"
    GIT_TRACE_BARE=1 GIT_TRACE_REFS=$PWD/lines git "$@"
    # Replacements are looked for in another order, and git shows what the ref before led to.
    grep -v 'iterator\|^reflog_exists\|^for_each_reflog' lines | sed 's/(=> [^)]*)//; s/type [0-9a-f]*:/type:/'
    rm -f lines
}
traced update-ref refs/heads/x 'v1^{commit}'
traced update-ref refs/heads/x side
traced update-ref refs/heads/x HEAD~1
traced update-ref refs/heads/x refs/heads/side
logs() {
    echo "$*"
    GIT_TRACE_BARE=1 GIT_TRACE_REFS=$PWD/lines git "$@"
    grep -A1 '^reflog_expire\|^delete_reflog' lines | grep -v 'iterator\|^--'
    rm -f lines
}
logs reflog expire --expire=1.day.ago --expire-unreachable=1.day.ago refs/heads/side
logs reflog delete main@{0}
logs reflog expire --expire=now refs/heads/main
logs reflog drop refs/heads/side

## reftables whose directory is gone
# in: reftable
# exits: 128 1
# masks: words
# state: no-objects no-fsck
history 2
mv .git/reftable kept
git update-ref refs/heads/a HEAD
git for-each-ref
git symbolic-ref HEAD refs/heads/x
ls -d .git/reftable 2>/dev/null
mv kept .git/reftable

## a line of packed-refs that is none, behind good ones
# in: files
# exits: 128 128 128
# masks: words
# state: no-fsck
history 2
stock branch b
stock pack-refs --all
cp .git/packed-refs kept
echo "$(stock rev-parse HEAD)0 refs/heads/zz" >>.git/packed-refs
git show-ref
git show-ref -d
git upload-pack --advertise-refs . >out
mv kept .git/packed-refs
rm -f out

## a lock timeout of reftables that makes no sense
# needs git: 2.55
# in: files reftable
# exits: any
history 1
git -c reftable.lockTimeout=-5 update-ref refs/heads/a HEAD
git -c reftable.lockTimeout=-1 update-ref refs/heads/b HEAD

## reftables without their list
# in: reftable
# differs: they are an error, where git takes the repository for one without refs
history 2
rm .git/reftable/tables.list
git for-each-ref
git repack -adq
git update-ref refs/tags/new "$(echo x | stock hash-object -w --stdin)"

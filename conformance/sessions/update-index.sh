# Entries of the index.

## added, and removed
# exits: 128 128
# in: sha1 sha256
repository
echo 1 >a
echo 2 >b
git update-index --add a b
git ls-files -s
rm a
git update-index --remove a b
git ls-files -s
git update-index c
git update-index a
git update-index --force-remove b

## without --add
# differs: no object is stored when the command fails
# exits: 128
repository
echo 1 >a
git update-index a

## told by --cacheinfo
# exits: 128 129
repository
blob=$(echo text | git hash-object -w --stdin)
git update-index --add --cacheinfo 100644,"$blob",a
git update-index --add --cacheinfo 100755 "$blob" dir/b
git update-index --add --cacheinfo 120000,"$blob",c
git ls-files -s
git update-index --cacheinfo 100644,"$blob",new
git update-index --add --cacheinfo 100644
git update-index --add --cacheinfo 100600,"$blob",odd
git ls-files -s odd

## told on standard input
repository
blob=$(echo text | git hash-object -w --stdin)
printf '100644 %s\ta\n100755 %s 0\tb\n100644 blob %s\tc\n' "$blob" "$blob" "$blob" | git update-index --index-info
printf '0 0000000000000000000000000000000000000000\ta\n' | git update-index --index-info
git ls-files -s
printf '100644 %s 1\tb\n100644 %s 2\tb\n' "$blob" "$blob" | git update-index --index-info
git ls-files -s

## lines that make no sense
# exits: 128 128
repository
echo nonsense | git update-index --index-info
echo "100644 123	a" | git update-index --index-info

## names on standard input
repository
echo 1 >a
echo 2 >'b c'
printf 'a\n"b c"\n' | git update-index --add --stdin
printf 'a\0b c\0' | git update-index --add -z --stdin
git ls-files

## refreshed
# exits: 1 1
history 2
touch -d 2001-01-01 dir1/file1
git update-index --refresh
echo changed >dir1/file1
git update-index --refresh
git update-index -q --refresh
git update-index --really-refresh

## bits of entries
history 2
git update-index --assume-unchanged dir1/file1
git update-index --skip-worktree dir2/file2
git ls-files -v
git update-index --no-assume-unchanged dir1/file1
git update-index --no-skip-worktree dir2/file2
git ls-files -v

## permissions
# exits: 128
history 1
git update-index --chmod=+x dir1/file1
git ls-files -s
git update-index --chmod=-x dir1/file1
git update-index --chmod=+x nothing

## a conflict is brought back
# state: no-work
conflict
echo settled >dir1/file1
git update-index --add dir1/file1
git update-index --unresolve dir1/file1
git ls-files -s
git update-index --clear-resolve-undo

## a file where a directory is
# exits: 128
repository
mkdir a
echo 1 >a/b
git update-index --add a/b
blob=$(echo text | git hash-object -w --stdin)
git update-index --add --cacheinfo 100644,"$blob",a
git update-index --add --replace --cacheinfo 100644,"$blob",a
git ls-files

## names that are not allowed
# exits: 128 128 128
repository
blob=$(echo text | git hash-object -w --stdin)
git update-index --add --cacheinfo 100644,"$blob",.git/config
git update-index --add --cacheinfo 100644,"$blob",../a
git update-index --add --cacheinfo 100644,"$blob",/a

## told what is done
repository
echo 1 >a
git update-index --verbose --add a
rm a
git update-index --verbose --remove a

## versions of the file
# exits: 128
history 2
git update-index --index-version 4
git update-index --show-index-version
git update-index --index-version 2
git update-index --show-index-version
git update-index --index-version 9

## --again with pathspecs
# exits: 128 128
history 3
tries() {
    for file in dir0/file3 dir1/file1 dir2/file2; do
        echo "staged for $1" >$file
        stock add $file
        echo "changed for $1" >$file
    done
    git update-index --again "$@"
    stock diff --name-only
}
tries '*1'
tries ':!dir1'
tries 'dir[12]/*'
tries ':(icase)DIR2' dir0
tries ':(attr:text)dir1'
tries nothing
tries ../outside
tries ''
cd dir1
stock add file1
tries_below() {
    echo "below $1" >file1
    echo "below $1" >../dir2/file2
    git update-index --again "$@"
    stock diff --name-only
}
tries_below ':/dir2'
tries_below '*'
tries_below ':^file1'

## --again
history 2
echo changed >dir1/file1
git update-index dir1/file1
echo again >dir1/file1
git update-index --again
git diff --stat
git update-index -g dir2

## --info-only and --missing-ok
# state: no-fsck
repository
echo 1 >a
git update-index --add --info-only a
git ls-files -s

## unknown options
# exits: 129 129
# masks: usage
repository
git update-index --bogus
git update-index --chmod=x a

## unmerged entries
# exits: 1
# says: needs merge
# state: no-work
conflict
git update-index --refresh
git update-index --unmerged --refresh

## split indexes
repository
echo 1 >a
git add a
git update-index --split-index
git ls-files -s
git update-index --no-split-index

## file system monitors
# exits: 128
history 2
stock checkout -q -f
git update-index --fsmonitor
git update-index --no-fsmonitor
git config core.fsmonitor false
git update-index --fsmonitor
git update-index --fsmonitor-valid dir1/file1
git update-index --no-fsmonitor-valid dir1/file1
git update-index --fsmonitor-valid missing
git config core.fsmonitor /bin/false
git update-index --no-fsmonitor 2>&1 | grep 'is set'
git config --unset core.fsmonitor

## untracked caches
repository
git update-index --test-untracked-cache >/dev/null
git update-index --untracked-cache
git update-index --no-untracked-cache

## split indexes, beside which entries change
repository
for n in 0 1 2 3 4 5 6 7 8 9; do echo $n >file$n; done
stock add .
stock config core.splitIndex true
git update-index --split-index
echo changed >file0
git update-index file0
git update-index --force-remove file1
echo new >new0
git add new0
git ls-files -s
ls .git | grep -c sharedindex
echo new >new1
echo new >new2
git add .
git ls-files -s
ls .git | grep -c sharedindex
git -c core.splitIndex=false update-index --split-index
git update-index --no-split-index
git ls-files -s
ls .git | grep -c sharedindex

## split indexes, that git goes on with
# state: no-log-of-HEAD no-pseudorefs
repository
for n in 0 1 2 3 4 5 6 7 8 9; do echo $n >file$n; done
stock add .
stock commit -q -m one
git update-index --split-index
echo changed >file3
git add file3
stock rm -q -f file4
echo new >new
stock add new
git stash
stock status --short
git stash pop --index
stock status --short
git -c splitIndex.maxPercentChange=0 -c splitIndex.sharedIndexExpire=now add .
ls .git | grep -c sharedindex
stock commit -q -m two
git ls-files -s

## split indexes, set up wrongly
# masks: words
# says: should be between 0 and 100
# exits: 128
repository
echo 1 >a
git -c splitIndex.maxPercentChange=101 -c splitIndex.sharedIndexExpire=foo add a
git update-index --split-index
echo 2 >b
git -c splitIndex.maxPercentChange=101 add b
git -c splitIndex.sharedIndexExpire=foo update-index --split-index
git ls-files

## untracked caches, of what comes and goes
# state: no-log-of-HEAD no-pseudorefs
repository
mkdir -p a/b d
for file in x a/x a/b/x d/x; do echo $file >$file; done
stock add .
stock commit -q -m one
for file in y a/y a/b/y d/y; do echo $file >$file; done
git update-index --untracked-cache
stock status --short
git add a/b/y
stock status --short
git update-index --force-remove d/x
stock status --short
git update-index --add --cacheinfo "100644,$(stock rev-parse :x),d/z"
stock status --short
git stash
stock status --short
git stash pop
stock status --short
git -c core.untrackedCache=true update-index --no-untracked-cache
stock status --short
git -c core.untrackedCache=false update-index --force-untracked-cache
stock status --short

## the hook post-index-change
# exits: 128
repository
mkdir -p .git/hooks
printf '#!/bin/sh\necho "$(pwd | sed s,.*/,,)" "$@" "$(git ls-files | tr "\\n" " ")" >>.git/changes\nexit 3\n' >.git/hooks/post-index-change
chmod +x .git/hooks/post-index-change
mkdir dir
for file in a b dir/c; do echo $file >$file; done
git add a
(cd dir && git add c)
git add --dry-run b
git update-index --add b
git update-index --skip-worktree b
git update-index --no-skip-worktree b
git write-tree
git write-tree
cat .git/changes
git add missing

## the hook post-index-change of stash
# state: no-log-of-HEAD no-pseudorefs no-files
history 2
printf '#!/bin/sh\necho "$@" >>.git/changes\n' >.git/hooks/post-index-change
chmod +x .git/hooks/post-index-change
seen() { sort -u .git/changes | tail -1; rm .git/changes; }
echo changed >>dir1/file1
git stash
seen
git stash apply
seen
stock reset -q --hard
rm .git/changes
git stash pop
seen

## what a file system monitor has said is kept
history 3
# A monitor that knows of the changes that are in a file.
cat >../monitor <<'EOF'
#!/bin/sh
printf 'token\0'
cat ../changed
EOF
chmod +x ../monitor
: >../changed
stock config core.fsmonitor ../monitor
stock update-index --fsmonitor
stock status --short
stock ls-files -f
git write-tree
git update-index --force-write-index
stock ls-files -f
echo changed >>dir1/file1
printf 'dir1/file1\0' >../changed
git add dir1/file1
stock ls-files -f
stock status --short
git update-index --chmod=+x dir2/file2
stock ls-files -f
git update-index --no-fsmonitor-valid dir0/file3
stock ls-files -f
git update-index --fsmonitor-valid dir0/file3 dir2/file2
stock ls-files -f
git update-index --force-remove dir0/file3
stock ls-files -f
stock status --short
git update-index --index-version 4
stock ls-files -f
git update-index --no-fsmonitor
stock ls-files -f
stock -c core.fsmonitor= status --short

## a file system monitor is asked
# exits: 128 1
history 3
cat >../monitor <<'EOF'
#!/bin/sh
echo "asked $1 $#" >>../asked
cat ../answer
EOF
chmod +x ../monitor
printf 'token\0' >../answer
stock config core.fsmonitor ../monitor
stock update-index --fsmonitor
git update-index --refresh
stock ls-files -f
echo unseen >>dir1/file1
git add -u
stock ls-files -s
printf 'token\0dir1/\0nothing\0' >../answer
: >../asked
git add -u
cat ../asked
stock ls-files -s
stock ls-files -f
echo unseen >>dir2/file2
stock config core.fsmonitorHookVersion 1
printf 'dir2/file2\0' >../answer
: >../asked
git add .
cat ../asked
stock ls-files -s
stock config core.fsmonitorHookVersion none
git add .
stock config --unset core.fsmonitorHookVersion
stock config core.fsmonitor 'false #'
echo seen >>dir0/file3
git update-index --refresh
git add .
stock ls-files -s

## a file system monitor, turned on and off
# exits: 128
history 2
git update-index --verbose --fsmonitor
stock -c core.fsmonitor=true config core.fsmonitor true
git update-index --verbose --fsmonitor
git update-index --verbose --no-fsmonitor
git update-index --fsmonitor-valid nothing

## a file system monitor in a bare repository
# exits: 128
stock init -q --bare .
git -c core.fsmonitor=true update-index --fsmonitor

## a file outside of the sparse checkout that is there
history 6
stock sparse-checkout set dir1
mkdir -p dir2
echo new >dir2/file2
git update-index dir2/file2
git ls-files -t -s
git write-tree

## the same, if that is expected
history 6
stock sparse-checkout set dir1
mkdir -p dir2
echo new >dir2/file2
git -c sparse.expectFilesOutsideOfPatterns=true update-index dir2/file2
git ls-files -t -s

## an untracked cache as configured
# state: no-log-of-HEAD no-pseudorefs
history 2
has() {
    grep -c UNTR .git/index
}
git -c core.untrackedCache=true write-tree
has
git -c core.untrackedCache=true update-index --refresh
has
git -c core.untrackedCache=false add dir1/file1
has
echo new >new
git -c core.untrackedCache=true add new
has
git -c core.untrackedCache=keep add new
has
git -c core.untrackedCache=keep update-index --untracked-cache
git -c core.untrackedCache=false write-tree
has
git -c feature.manyFiles=true add dir2/file2
has
git -c core.untrackedCache=false -c feature.manyFiles=true update-index --refresh
has
git -c core.untrackedCache=true stash -q
has
git -c core.untrackedCache=false stash pop -q
has
stock status --short

## a mode for a path that is ignored
# exits: 128
history 3
git update-index --verbose --chmod=+x . dir1/file1
git update-index --verbose --chmod=+x dir1/file1

## an entry without an object
# exits: 128 128 128 128 128 128 128 128 128 128 128 128
history 1
for line in "100644 $(printf '%040d' 0) 0	new" "160000 $(printf '%040d' 0) 0	new" "100644 $(printf '%040d' 0) 0	new/below"; do
    stock read-tree HEAD
    echo "$line" | git update-index --index-info
    echo "$line" | GIT_ALLOW_NULL_SHA1=1 stock update-index --index-info 2>/dev/null
    git write-tree
    git write-tree --missing-ok
    git update-index --add dir1/file1
    stock ls-files -s
done
stock read-tree HEAD

## a version that is none matters to a new index alone
history 1
echo new >new
GIT_INDEX_VERSION=1 git add new
GIT_INDEX_VERSION= git update-index --refresh
git -c index.version=7 update-index --force-remove new
rm .git/index
GIT_INDEX_VERSION=x git update-index --refresh
git -c index.version=7 add .
stock update-index --show-index-version
rm .git/index
GIT_INDEX_VERSION= git -c index.version=4 add .

## lines with NUL and behind quotes
# state: no-work
repository
echo 1 >a
echo 2 >b
printf 'a\0b\n' | git update-index --add --stdin
printf '"b"x\n' | git update-index --add --stdin
printf "100644 $(stock hash-object a)\tx\0y\n" | git update-index --index-info
printf 'a\0b\n' | git hash-object --stdin-paths
printf '"a"b\n' | git hash-object --stdin-paths
git ls-files -s

## an empty path is the current directory
# exits: 128
repository
mkdir d
echo 1 >d/a
stock add d/a
cd d
git update-index ''
git update-index --add .
printf '\n' | git update-index --stdin
git update-index --chmod=+x ''

## what had to be updated is no failure before --again
history 2
echo x >>dir1/file1
echo x >>dir2/file2
stock add dir1
git update-index --refresh --again dir1
git status --short

## a tree of attributes that is not there
# needs git: 2.55
# exits: 128
history 1
cp dir1/file1 other
mv other dir1/file1
GIT_ATTR_SOURCE=nothing git update-index --refresh

## a repository of another hash
# needs git: 2.55
# exits: 128 128
repository
commit a
stock init -q --object-format=sha256 long
(cd long && commit q)
git update-index --add long
git add long
stock ls-files -s
rm -rf long

## what is executable or a link does not follow from a conflict
conflict
git config core.fileMode false
git config core.symlinks false
blob=$(stock rev-parse HEAD:dir1/file1)
for stage in 1 2 3; do
    for mode in 100755 120000; do
        stock rm -q --cached dir1/file1
        printf '%s %s %s\tdir1/file1\n' $mode "$blob" $stage | stock update-index --index-info
        git update-index dir1/file1
        stock ls-files -s dir1
    done
done

## a sparse index stays sparse
# state: no-objects no-fsck
sparse_tree
top=$(stock rev-parse HEAD:top)
shown() {
    sparse_state
    stock fsck --no-dangling
}
updated() {
    echo "$*"
    git update-index "$@"
    shown
}
updated --add --cacheinfo 100644,$top,in/q
updated --add --cacheinfo 100644,$top,out/q
updated --add --cacheinfo 100644,$top,new/q
updated --force-remove out2/d
updated --skip-worktree out/q
updated --skip-worktree new/q
updated --cacheinfo 100644,$top,out/sub/c
updated --index-version 4
updated --untracked-cache
git write-tree
shown
printf "100644 $top 1\tout/b\n100644 $top 2\tout/b\n" | updated --index-info
updated --cacheinfo 100644,$top,in/a
printf "0 $top\tout/b\n" | updated --index-info
stock reset -q --hard
stock sparse-checkout reapply
updated --add --cacheinfo 160000,$(stock rev-parse HEAD),out/sub/m
updated --force-remove out/sub/m

## a sparse index that is to be sparse no more, or again
# state: no-objects no-fsck no-config
mkdir -p in out/sub
for file in in/a out/b out/sub/c top; do echo $file >$file; done
repository
stock add .
stock commit -q -m one
stock config advice.sparseIndexExpanded false
stock sparse-checkout set --cone --sparse-index in
shown() {
    stock -c index.sparse=false ls-files --sparse --stage -t
    grep -c sdir .git/index
    stock write-tree
}
for setting in index.sparse core.sparseCheckout core.sparseCheckoutCone; do
    echo $setting >in/a
    git -c $setting=false update-index in/a
    shown
    git update-index --add --cacheinfo 100644,$(stock rev-parse HEAD:top),in/$setting
    shown
    git -c $setting=false update-index
    shown
    stock sparse-checkout reapply
done
mv .git/info/sparse-checkout away
echo 2 >in/a
git update-index in/a
shown
mv away .git/info/sparse-checkout
echo 3 >in/a
git update-index in/a
shown
stock sparse-checkout set out/sub
echo 4 >out/sub/c
git add out
shown

## an intent to add keeps its directory in a sparse index
# state: no-objects no-fsck
# needs git: 2.56
mkdir -p in/deep out/sub out2
for file in in/a out/b out/sub/c out2/d top; do echo $file >$file; done
repository
stock add .
stock commit -q -m one
stock config advice.sparseIndexExpanded false
stock sparse-checkout set --cone --sparse-index in
touch in/i
git add -N in/i
stock ls-files --sparse --stage -t
git update-index --force-remove out2/d
stock ls-files --sparse --stage -t
mkdir out
touch out/i
git add --sparse -N out/i
stock ls-files --sparse --stage -t
git update-index --skip-worktree out/i
rm -r out
git update-index --add --cacheinfo 100644,$(stock rev-parse HEAD:top),out/q
stock ls-files --sparse --stage -t

## a file system monitor, of what is new
# state: no-log-of-HEAD no-pseudorefs
# exits: 1
monitored_tree d/x d/y
known() {
    "$@"
    stock ls-files -f
    grep -c FSMN .git/index
}
known git add a
echo new >n
known git add n
stock status --short
echo new >new
known git add new
echo 2 >a
known git add a
echo a >.git/changed
known git add a
: >.git/changed
stock status --short
known git add --chmod=+x b
stock status --short
touch intent
known git add -N intent
known git add intent
ln -s a link
known git add link
printf "100644 $(stock rev-parse HEAD:a) 1\tboth\n100644 $(stock rev-parse HEAD:a) 2\tboth\n" | git update-index --index-info
echo both >both
known git add both
echo u >u
known git update-index --add u
echo c2 >c
known git update-index c
echo c >.git/changed
known git update-index c
: >.git/changed
known git update-index --refresh
known git update-index --force-remove u
known git -c core.fsmonitor= add n

## a file system monitor of a split index
mkdir d
for file in a b c d/x d/y; do echo $file >$file; done
touch -d 2005-01-01 a b c d/*
repository
stock add .
printf '#!/bin/sh\nprintf "token\\0"\n' >.git/monitor
chmod +x .git/monitor
stock config core.fsmonitor .git/monitor
known() {
    "$@"
    stock ls-files -f
    grep -c FSMN .git/index
}
known git update-index --fsmonitor --split-index
stock status --short
known git update-index --force-remove b
known git update-index --no-fsmonitor-valid c
echo new >d/new
known git add d/new
known git update-index --no-split-index
known git update-index --split-index
known git update-index --no-fsmonitor 2>/dev/null

## a file system monitor of a sparse index
# state: no-objects no-fsck
mkdir -p in/deep out/sub out2
for file in in/a in/deep/b out/b out/sub/c out2/d top; do echo $file >$file; done
touch -d 2005-01-01 in/a top
repository
stock add .
stock commit -q -m one
stock config advice.sparseIndexExpanded false
stock sparse-checkout set --cone --sparse-index in
printf '#!/bin/sh\nprintf "token\\0"\n' >.git/monitor
chmod +x .git/monitor
stock config core.fsmonitor .git/monitor
known() {
    "$@"
    stock ls-files --sparse -f
    grep -c FSMN .git/index
}
stock status --short
echo new >in/new
known git add in/new
echo changed >in/a
known git add in/a
known git update-index --no-fsmonitor-valid top
known git update-index --force-remove out2/d
stock status --short
known git update-index --force-remove out/b

## `write-tree` asks the file system monitor
monitored_tree
printf '#!/bin/sh\necho "asked in version $1" >&2\nprintf "token\\0"\n' >.git/monitor
known() {
    "$@"
    stock ls-files -f 2>/dev/null
    grep -c FSMN .git/index
}
known git write-tree
stock -c core.fsmonitor= update-index --add --cacheinfo 100644,$(stock rev-parse HEAD:a),x
known git write-tree
known git write-tree --prefix=
known git -c core.fsmonitor= write-tree
stock -c core.fsmonitor= update-index --force-remove x
known git write-tree
GIT_INDEX_FILE=.git/other known git write-tree
git --git-dir=.git -c core.bare=true write-tree

## a file that was renamed and back is clean after a refresh
repository
echo 1 >file
# From a time to come, so that each index is older than the file.
touch -d 2099-01-01 file
git add file
mv file other
mv other file
git update-index --refresh
stock diff-files
stock ls-files --debug | grep size
git update-index --refresh
stock diff-files

## files assumed unchanged
# exits: 128
history 3
stock update-index --assume-unchanged dir2/file2
echo changed >>dir2/file2
git update-index dir2/file2
printf '\ndir2/file2\n' | git update-index --stdin
git update-index --chmod=+x dir2/file2
git update-index --again
stock ls-files -v
git add dir2/file2
stock ls-files -v
stock update-index --assume-unchanged dir2/file2
rm dir2/file2
git update-index dir2/file2
git update-index --remove dir2/file2
stock ls-files -v

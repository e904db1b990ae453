# Which repository and which work tree a command uses, by directories, variables and settings.

## the git directory is elsewhere
mkdir -p top/sub
echo 1 >top/f
echo 2 >top/sub/f
stock init -q --separate-git-dir=real.git top
cd top
git add -n -v .
git -C sub add -v f
git -C sub update-index --add ../f
git -C sub stash list
stock --git-dir=../real.git config --unset core.bare
git add -n -v --all
git update-index --refresh
git --git-dir=../real.git write-tree
rm -r ../real.git/objects/?? ../top

## in the git directory
# exits: 128 128
mkdir top
echo 1 >top/f
stock init -q --separate-git-dir=real.git top
cd real.git
git add .
stock config core.worktree ../top
git add -v .
git -C objects add -n -v -A
stock config core.worktree "$PWD/objects/info/x"
git add .
rm -r objects/?? ../top

## a variable names no repository
# exits: 128 128 128 128
repository
echo text >f
GIT_DIR=nothing git for-each-ref
git --git-dir="$PWD/none" add .
GIT_DIR=nothing git hash-object f
GIT_DIR=nothing git hash-object -w f
GIT_DIR=f git symbolic-ref HEAD

## a variable names no work tree
# exits: 128 128
repository
echo text >f
export GIT_WORK_TREE=nothing
git symbolic-ref HEAD
git hash-object f
git add f
git stash

## a variable names another work tree
history 2
mkdir -p ../elsewhere/in .git/hooks
echo text >../elsewhere/in/f
echo '*.c text' >../elsewhere/.gitattributes
printf '#!/bin/sh\npwd | sed "s,.*/,,"\n' >.git/hooks/post-index-change
chmod +x .git/hooks/post-index-change
GIT_WORK_TREE=../elsewhere git add -v -A
cd ../elsewhere/in
printf 'a\r\n' >x.c
git --git-dir="$OLDPWD/.git" --work-tree=.. add -v x.c
GIT_DIR="$OLDPWD/.git" git add -v -n .
cd "$OLDPWD"
stock ls-files -s
rm -r ../elsewhere .git/hooks/post-index-change

## a bare repository with a work tree
stock init -q --bare bare.git
echo text >f
git --git-dir=bare.git --work-tree=. add -v f
GIT_DIR=bare.git GIT_WORK_TREE=. git update-index --refresh
git --git-dir=bare.git --work-tree=. update-ref HEAD "$(stock --git-dir=bare.git commit-tree -m one "$(stock --git-dir=bare.git write-tree)")"
find bare.git/logs -type f
rm -r bare.git/objects/??

## the index is elsewhere
history 2
echo new >new
mkdir -p sub
GIT_INDEX_FILE=other git -C sub add -v ../new
GIT_DIR=$PWD/.git GIT_INDEX_FILE=third git -C sub update-index --add --cacheinfo "100644,$(stock hash-object -w new),x"
find . -name other -o -name third
rm other sub/third

## settings contradict each other
# exits: 128 128
repository
echo text >f
stock config core.bare true
stock config core.worktree ..
git add f
git update-index --add f
git update-index --index-version 4
GIT_WORK_TREE=. git add -v f
git hash-object f

## a work tree that is not there
# exits: 128 128 128
repository
stock config core.worktree nothing
git symbolic-ref HEAD
git add .
stock config -f .git/config core.worktree /nothing/at/all
git for-each-ref
GIT_WORK_TREE=. git add .

## core.bare is no boolean
# exits: 128 128 128 128 128
repository
echo text >f
stock config core.bare many
git add f
git upload-pack --advertise-refs .
git receive-pack --advertise-refs .
git symbolic-ref HEAD
GIT_WORK_TREE=. git add f

## GIT_TRACE_SETUP shows the repository that is found
history 1
mkdir -p sub/dir
stock worktree add -q linked
GIT_TRACE_BARE=1
GIT_TRACE_SETUP=1
export GIT_TRACE_BARE GIT_TRACE_SETUP
git for-each-ref
(cd sub/dir && git for-each-ref)
(cd sub/dir && GIT_DIR=../../.git git for-each-ref)
(cd sub/dir && GIT_DIR=../../.git GIT_WORK_TREE=../.. git for-each-ref)
(cd .git && git for-each-ref)
(cd .git/refs && git for-each-ref)
(cd linked && git for-each-ref)
git --git-dir=.git for-each-ref

## what is only named as a repository is passed by
# exits: 128 128
history 1
mkdir -p a/.git b/.git/objects b/.git/refs c
echo junk >b/.git/HEAD
echo junk >c/.git
for dir in a b c; do
    (cd $dir && git for-each-ref)
done
rm .git/HEAD
git for-each-ref

## a hook sees its own path from where it runs
history 2
mkdir -p .git/hooks own sub
printf '#!/bin/sh\necho "$0" >&2\n' >own/post-index-change
chmod +x own/post-index-change
for name in a b c d e; do
    echo $name >sub/$name
done
cp own/post-index-change .git/hooks
git add sub/a
git -C sub add b
git -C sub -c core.hooksPath=own add c
git -c core.hooksPath=./own add sub/d
rm .git/hooks/post-index-change
ln -s ../../own/post-index-change .git/hooks/post-index-change
git add sub/e
stock init -q --bare to.git
mkdir -p to.git/hooks
for hook in pre-receive update post-receive; do
    cp own/post-index-change to.git/hooks/$hook
done
git push -q to.git main
rm .git/hooks/post-index-change

## extensions that say where git finds other directories
# needs git: 2.55
# exits: 128 128 128 128 128 128
history 1
for name in submodulePathConfig relativeWorktrees; do
    stock config core.repositoryFormatVersion 1
    for value in true false; do
        stock config extensions.$name $value
        git for-each-ref
        git update-ref refs/heads/$name-$value HEAD
    done
    stock config --file .git/config extensions.$name bad
    git for-each-ref
    for value in bad true; do
        printf '[core]\n\trepositoryFormatVersion = 0\n[extensions]\n\t%s = %s\n' $name $value >.git/config
        git for-each-ref
    done
    printf '[core]\n\trepositoryFormatVersion = 1\n' >.git/config
done

## a repository of another user is found by the path of its work tree
# needs git: 2.55
# exits: 128 128 128 128 128 128 128 128 128 128 128 128
history 1 'a tree'
ln -s 'a tree' link
mkdir 'a tree/sub'
safe() {
    GIT_TEST_ASSUME_DIFFERENT_OWNER=1 git -c "safe.directory=$1" -C "$2" for-each-ref
}
safe none 'a tree' 2>&1 | sed "s|$PWD|HERE|g"
for dir in 'a tree' link/sub link; do
    safe "$PWD/a tree" "$dir"
    safe "$PWD/link" "$dir"
    safe "$PWD/link/" "$dir"
    safe "$PWD/*" "$dir"
done
for dir in 'a tree' link link/sub; do
    safe "$PWD/a tree/.git" "$dir" 2>&1 | sed "s|$PWD|HERE|g"
done
for dir in 'a tree/.git' link/.git/refs; do
    safe "$PWD/a tree" "$dir" 2>&1 | sed "s|$PWD|HERE|g"
    safe "$PWD/link/.git" "$dir"
    safe "$PWD/a tree/*" "$dir"
done
for dir in 'a tree' 'a tree/.git' link; do
    safe . "$dir"
done
for dir in 'a tree/sub' link/.git/refs; do
    safe . "$dir" 2>&1 | sed "s|$PWD|HERE|g"
done
stock init -q --separate-git-dir apart by-file
safe "$PWD/by-file" by-file
safe "$PWD/apart" by-file 2>&1 | sed "s|$PWD|HERE|g"
safe "$PWD/by-file/.git" by-file 2>&1 | sed "s|$PWD|HERE|g"
stock -C 'a tree' worktree add -q ../other
safe "$PWD/other" other
safe "$PWD/a tree" other 2>&1 | sed "s|$PWD|HERE|g"
safe "$PWD/a tree/.git/worktrees/other" other 2>&1 | sed "s|$PWD|HERE|g"

## new files of a shared repository
# state: no-pseudorefs no-files no-config
# in: files reftable
umask 077
for shared in group all 0640 0600; do
    git init -q --template= --shared=$shared $shared
    cd $shared
    commit one
    git update-ref --create-reflog refs/heads/a/b HEAD
    echo more >one
    git stash push -q
    git reflog expire --all --expire=now
    git pack-refs --all
    git repack -adqb
    git commit-graph write --reachable
    cd ..
    stock clone -q "file://$PWD/$shared" other
    cd other
    commit two
    git push -q "../$shared" main:refs/heads/n/new
    cd ..
    rm -rf other
    find $shared/.git ! -name '*_MERGE' ! -name 'ORIG_HEAD' ! -name '*.ref' ! -path '*/objects/??' ! -path '*/objects/??/*' \
        -printf '%m %p\n' | sed 's/pack-[0-9a-f]*/pack/' | sort
    find $shared/.git/logs -type f -exec chmod 600 {} +
    git -C $shared update-ref -m again HEAD HEAD
    find $shared/.git/logs -type f -printf '%m %p\n' | sort
done

## bare repositories that nobody named
# exits: 128 128 128 1 128
repository
stock init -q --bare inner.git
stock init -q --bare .git/modules/sub
cd inner.git
git -c safe.bareRepository=explicit for-each-ref
git -c safe.bareRepository=explicit pack-refs --all
git -c safe.bareRepository=explicit update-ref refs/heads/x HEAD
git -c safe.bareRepository=explicit --git-dir=. show-ref
git -c safe.bareRepository=all for-each-ref
cd refs
git -c safe.bareRepository=explicit for-each-ref
GIT_DIR=.. git -c safe.bareRepository=explicit for-each-ref
cd ../../.git
git -c safe.bareRepository=explicit for-each-ref
cd refs
git -c safe.bareRepository=explicit for-each-ref
cd ../modules/sub
git -c safe.bareRepository=explicit for-each-ref
stock config safe.bareRepository explicit
git for-each-ref

## variables that are empty
# exits: 128 128 128 128 128 128 128 128 128 128 128
history 2
mkdir new
(
    cd new
    GIT_DIR= git init
    GIT_WORK_TREE= git init
)
for name in GIT_DIR GIT_WORK_TREE GIT_COMMON_DIR GIT_OBJECT_DIRECTORY; do
    echo $name
    env $name= git add dir1
    env $name= git show-ref
    env $name= git hash-object dir1/file1
done

## settings without a value or with a wrong one, which every command reads
# exits: 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128
history 1
for setting in user.name core.attributesFile core.abbrev core.abbrev=x core.abbrev=3 core.compression=x core.fileMode=x \
    core.autocrlf=warn core.looseCompression=77; do
    git -c $setting show-ref
    git -c $setting update-ref refs/heads/new HEAD
done
git -c core.hooksPath update-ref refs/heads/new HEAD
for setting in user.name= core.fileMode core.autocrlf=INPUT core.safecrlf=Warn core.abbrev=AUTO core.abbrev=no; do
    git -c $setting show-ref
done
printf '[core]\n\t# hooks\n\tabbrev\n' >>.git/config
git show-ref
mkdir below
(cd below && git for-each-ref)
sed -i '$d' .git/config

## settings with a wrong value in a file, and reflogs without one
# needs git: 2.55
# exits: 128 128 128
history 1
git -c core.logAllRefUpdates update-ref refs/heads/new HEAD
cp .git/config saved
printf '[core]\n\tabbrev = x\n' >>.git/config
git show-ref
(cd .git && git show-ref)
cp saved .git/config

## variables that are no booleans
# exits: 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128
history 1
for command in for-each-ref show-ref 'show-ref --verify refs/heads/main' 'update-ref refs/heads/new HEAD'; do
    GIT_REF_PARANOIA=x git $command
    GIT_CONFIG_NOSYSTEM=x git $command
    GIT_DISCOVERY_ACROSS_FILESYSTEM=x git $command
    GIT_NO_LAZY_FETCH=x git $command
    GIT_REF_PARANOIA= GIT_DISCOVERY_ACROSS_FILESYSTEM=7k GIT_NO_LAZY_FETCH=off git $command
done
GIT_PAGER_IN_USE=x git reflog show

## relative paths of objects lead from the top
# needs git: 2.55
# exits: 128 128 128 128 128 128
history 2
stock init -q empty
h=$(stock rev-parse HEAD)
mkdir empty/sub
echo a >empty/a
echo b >empty/sub/b
GIT_OBJECT_DIRECTORY=.git/objects git -C empty add a
GIT_OBJECT_DIRECTORY=.git/objects git -C empty/sub add b
GIT_OBJECT_DIRECTORY=nothing git -C empty add .
(
    cd empty/sub
    GIT_OBJECT_DIRECTORY=.git/objects git hash-object -w b
    GIT_OBJECT_DIRECTORY=../.git/objects git hash-object -w b
)
stock cat-file -t 61780798228d17af2d34fce4cfbdf35556832472
stock -C empty fsck
GIT_ALTERNATE_OBJECT_DIRECTORIES=../.git/objects git -C empty/sub update-ref refs/heads/new $h
(
    cd empty/sub
    GIT_ALTERNATE_OBJECT_DIRECTORIES=../.git/objects git update-ref refs/heads/other $h
)
GIT_OBJECT_DIRECTORY=nothing git --git-dir=.git show-ref
GIT_OBJECT_DIRECTORY=.git/config git reflog
GIT_OBJECT_DIRECTORY=nothing git stash list
GIT_OBJECT_DIRECTORY=nothing git hash-object dir1/file1
rm -rf empty

## relative paths of settings, of an index and of shallow commits lead from where git is
# needs git: 2.55
# exits: 128 128 1
history 2
printf '[core]\n\tabbrev = 20\n' >config
printf '[core]\n\tabbrev = 9\n' >dir1/config
for command in '-C dir1 reflog -1' 'reflog -1' '-C .git reflog -1'; do
    GIT_CONFIG_GLOBAL=config git $command
    GIT_CONFIG_GLOBAL=../config git $command
done
(
    cd dir1
    GIT_CONFIG_GLOBAL=config git reflog -1
    GIT_CONFIG_GLOBAL=../config git reflog -1
    echo x >>file1
    GIT_INDEX_FILE=.git/other git update-index file1
    GIT_INDEX_FILE=.git/other git update-index --add file1
)
GIT_INDEX_FILE=.git/other git -C dir1 write-tree
ls .git/other
GIT_INDEX_FILE=.git/third GIT_WORK_TREE=dir1 git update-index --add file1
GIT_INDEX_FILE=.git/third git --work-tree=dir1 write-tree
GIT_INDEX_FILE=.git/third git --work-tree=dir1 add file1
GIT_INDEX_FILE=.git/third git --work-tree=dir1 stash
ls .git/third
stock rev-parse HEAD~1 >shallow
printf 'HEAD\n' | GIT_SHALLOW_FILE=shallow git -C dir1 pack-objects -q --revs --stdout >pack
od -An -tx1 -j8 -N4 pack
printf 'HEAD\n' | GIT_SHALLOW_FILE=../shallow git -C .git pack-objects -q --revs --stdout >pack
od -An -tx1 -j8 -N4 pack
rm pack

## attributes of a tree that does not exist
# exits: 128 128 128 128 128
history 2
stock init -q --bare there.git
stock update-ref refs/heads/attributes HEAD
git --attr-source=attributes push -q there.git main
echo x >>dir1/file1
for command in show-ref reflog write-tree fsck 'update-ref refs/heads/new HEAD' 'for-each-ref' 'commit-graph write' \
    'hash-object --stdin' 'hash-object --no-filters dir1/file1' 'hash-object dir1/file1' 'hash-object -w dir1/file1' \
    'add .' 'update-index dir1/file1' 'repack -adfq'; do
    echo "$command"
    git --attr-source=nothing $command </dev/null
done

## a file of pathspecs at the top of a work tree that is elsewhere
# needs git: 2.55
# exits: 128 128 128 128
history 3
mkdir -p top/sub
echo dir2 >list
echo sub >top/list
echo x >top/sub/y
echo dir1 >only
git --git-dir=.git --work-tree=top add -v --pathspec-from-file=list
git --git-dir=.git --work-tree=top add -v --pathspec-from-file=only
git add --pathspec-from-file=
git add --pathspec-from-file= --pathspec-file-nul
stock config core.worktree ../top
echo z >>top/sub/y
git add -v --pathspec-from-file=list
git stash push --pathspec-from-file=only
git -C top/sub add -v --pathspec-from-file=nothing
stock config --unset core.worktree

## hash-object reads no index, and passes a repository by that it does not know
# exits: 128
history 1
printf '*.t text\n' >.gitattributes
stock add .gitattributes
rm .gitattributes
printf 'a\r\nb\r\n' >a.t
git hash-object a.t
cp a.t staged
stock add staged
git -c core.autocrlf=true hash-object staged
head -c 50 .git/index >.git/part
mv .git/index .git/saved
mv .git/part .git/index
git hash-object a.t
git hash-object -w a.t
git hash-object --stdin --path=a.t <a.t
mv .git/saved .git/index
stock config core.repositoryFormatVersion 1
stock config extensions.nonsense 1
git hash-object dir1/file1
git hash-object -w dir1/file1
echo x | git hash-object --stdin
cp .git/config saved
sed -i '/nonsense/d; s/Version = 1/Version = 5/' .git/config
git hash-object dir1/file1
sed -i 's/Version = 5/Version = 0/' .git/config

## of the marks assume-unchanged and skip-worktree, only the first is changed
history 1
for options in '--skip-worktree --no-assume-unchanged' '--assume-unchanged --skip-worktree' \
    '--no-assume-unchanged --skip-worktree' '--skip-worktree' '--no-skip-worktree --assume-unchanged' \
    '--no-skip-worktree --no-assume-unchanged' '--no-skip-worktree'; do
    git update-index $options dir1/file1
    stock ls-files -v dir1
done

## whether there is a work tree is up to the repository
# exits: 128 128
history 2
echo more >x
git -c core.bare=true add x
GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.worktree GIT_CONFIG_VALUE_0=/nowhere git add x
git -c core.worktree=nowhere stash list
stock config --unset core.bare
git -c core.bare=true stash list
stock config core.bare true
git -c core.bare=false update-index --refresh
stock config core.bare false
stock config core.worktree ..
git -c core.worktree=/nowhere update-index --refresh
stock config --unset core.worktree
stock init -q --bare b
git -C b -c core.bare=false -c core.worktree=.. update-index --refresh
rm -rf b

## work trees that are not implied
# needs git: 2.55
# exits: 128 128 128 128
history 2
export GIT_DIR=.git
GIT_IMPLICIT_WORK_TREE=0 git update-index --refresh
GIT_IMPLICIT_WORK_TREE= git stash list
GIT_IMPLICIT_WORK_TREE=maybe git update-ref refs/heads/x HEAD
GIT_IMPLICIT_WORK_TREE=maybe GIT_WORK_TREE=. git update-index --refresh
GIT_IMPLICIT_WORK_TREE=1 git update-index --refresh
stock config core.worktree ..
GIT_IMPLICIT_WORK_TREE=0 git update-index --refresh
stock config --unset core.worktree
unset GIT_DIR
git -C .git --bare stash list
git -C .git --bare --work-tree=.. update-index --refresh

## variables that are no booleans
# needs git: 2.55
# exits: 128 128 128 128 128 128 128 128 128 128 128
history 2
echo more >dir1/file1
for name in GLOB NOGLOB ICASE LITERAL; do
    export "GIT_${name}_PATHSPECS=maybe"
    git add dir1
    git stash push -q dir1
done
git update-index --again dir1
git update-index --again
unset GIT_GLOB_PATHSPECS GIT_NOGLOB_PATHSPECS GIT_ICASE_PATHSPECS GIT_LITERAL_PATHSPECS
export GIT_REF_PARANOIA=maybe
git repack -q
git pack-objects --all -q p </dev/null

## a shallow file with more than names, and with less
# exits: 128 128
# state: no-fsck
history 3
id=$(stock rev-parse HEAD~1)
printf '%s\r\n' "$id" >.git/shallow
git for-each-ref --format='%(ahead-behind:HEAD~1)'
git pack-objects --all --stdout </dev/null | stock index-pack --stdin >/dev/null
printf '%s and more' "$id" >.git/shallow
git for-each-ref --format='%(ahead-behind:HEAD~1)'
printf '%s\n\n' "$id" >.git/shallow
git for-each-ref --format='%(ahead-behind:HEAD~1)' 2>/dev/null
git pack-objects --all --stdout </dev/null 2>/dev/null
rm .git/shallow

## a shallow file that is damaged ends what follows the history, or serves it
# exits: any
# needs git: 2.55
# masks: progress
# state: no-fsck
history 4
stock tag -a -m one v1
stock repack -dq
commit new
tree=$(stock rev-parse HEAD^{tree})
cp .git/objects/pack/*.pack x.pack
for damage in 'echo garbage >.git/shallow' 'echo >.git/shallow' "stock rev-parse HEAD~1 | sed 's/.$//' >.git/shallow"; do
    eval "$damage"
    for command in 'pack-objects -q --all x' 'repack -adq' 'repack -dq' 'repack -dq --geometric=2' 'for-each-ref' 'for-each-ref --format=%(objecttype)' 'for-each-ref --contains=HEAD' \
        'for-each-ref --merged=HEAD' 'for-each-ref --format=%(ahead-behind:HEAD~1)' 'show-ref -d' 'show-ref --verify refs/heads/main' 'update-ref refs/tags/x v1' 'update-ref refs/heads/x HEAD~1' \
        'update-ref -d refs/tags/x' 'symbolic-ref HEAD' 'write-tree' "commit-tree -m one $tree" "commit-tree -m one -p HEAD $tree" 'hash-object -w new' 'add new' 'update-index --refresh' 'stash list' \
        'reflog exists HEAD' 'reflog delete HEAD@{1}' 'refs verify' 'index-pack x.pack' 'index-pack --strict x.pack' 'verify-pack x.pack' 'multi-pack-index write' 'multi-pack-index write --bitmap' \
        'multi-pack-index verify' 'multi-pack-index expire' 'commit-graph write --reachable' 'upload-pack --advertise-refs .' 'receive-pack --advertise-refs .'; do
        echo "$command"
        git $command </dev/null 2>&1 >/dev/null | sed '/^$/d'
    done
    git push -q --force "file://$PWD" HEAD:refs/heads/other 2>/dev/null
    git clone -q --bare "file://$PWD" to.git 2>/dev/null
done
rm -rf x* to.git .git/shallow

## settings of uploading that need values
# needs git: 2.55
# exits: 128 128 128 128
history 1
git -c uploadpack.packObjectsHook upload-pack --advertise-refs .
git -c uploadpack.hideRefs upload-pack --advertise-refs .
git -c transfer.hideRefs upload-pack --advertise-refs .
git -c fsck.skipList refs verify
stock config uploadpack.packObjectsHook ''
sed 's/ = *$//' .git/config >changed
mv changed .git/config
git upload-pack --advertise-refs . | wc -l

## traces to descriptors that are closed or only read, and to a full disk
# says: unable to write trace for GIT_TRACE_PACKET: Bad file descriptor
history 1
stock hash-object -t blob --stdin </dev/null >file
for name in GIT_TRACE GIT_TRACE_SETUP GIT_TRACE_PERFORMANCE GIT_TRACE2; do
    for value in 7 /dev/full; do
        (
            export GIT_TRACE2_DST_DEBUG=1
            export $name=$value
            git show-ref
            git show-ref 7<file
        )
    done
done
GIT_TRACE2=7 git show-ref
GIT_TRACE_PACKET=7 git upload-pack --advertise-refs . | wc -l
GIT_TRACE_PACKET=7 git upload-pack --advertise-refs . 7<file | wc -l
GIT_TRACE=7 GIT_TRACE_BARE=1 git show-ref 7>trace
cat file trace
rm file trace

## a linked work tree has settings of its own
# exits: 128
history 3
stock config extensions.worktreeConfig true
stock worktree add -q linked
stock config --worktree core.fileMode true
stock -C linked config --worktree core.fileMode false
chmod +x dir1/file1 linked/dir1/file1
git add -u
git -C linked add -u
stock -C linked ls-files -s
stock -C linked config --worktree index.version 4
git -C linked update-index --force-write-index
printf '[x\n' >>.git/worktrees/linked/config.worktree
git -C linked add -u

## settings without a value that keep a repository closed
# needs git: 2.55
# exits: 128 128 128 128 128 128 128 128 128 128 128 128 128 128
history 1
cp .git/config saved
for setting in 'core worktree' 'extensions partialClone'; do
    printf '[%s]\n\t%s\n' ${setting% *} ${setting#* } >>.git/config
    git show-ref
    git update-ref refs/heads/new HEAD
    git add dir1
    git hash-object dir1/file1
    git init -q
    git upload-pack --advertise-refs .
    (cd dir1 && git for-each-ref)
    cp saved .git/config
done
git -c core.worktree show-ref

## a variable of attributes that is no boolean
# needs git: 2.55
# exits: 128 128 128
history 1
echo '* text' >.gitattributes
echo new >dir1/file1
GIT_ATTR_NOSYSTEM=x git add .
GIT_ATTR_NOSYSTEM=x git hash-object .gitattributes
GIT_ATTR_NOSYSTEM=x git hash-object --no-filters .gitattributes
GIT_ATTR_NOSYSTEM=x git update-index dir1/file1
GIT_ATTR_NOSYSTEM=x git show-ref
GIT_ATTR_NOSYSTEM=x git write-tree
GIT_ATTR_NOSYSTEM= git add .

## core.logAllRefUpdates without a value, where refs are read and where they are not
# needs git: 2.55
# exits: any
history 3
printf '[core]\n\tlogAllRefUpdates\n' >>.git/config
for command in show-ref for-each-ref 'symbolic-ref HEAD' 'update-ref refs/heads/x HEAD' reflog 'reflog list' 'reflog exists HEAD' \
    'reflog expire --all' 'pack-refs --all' 'refs verify' 'refs list' 'refs exists HEAD' 'stash' 'stash list' 'stash create' \
    'stash show' 'stash drop' 'stash clear' 'stash store HEAD' 'add .' 'update-index --refresh' write-tree \
    'commit-tree HEAD^{tree}' 'hash-object dir1/file1' 'pack-objects --all --stdout -q' 'repack -adq' \
    'commit-graph write --reachable' 'commit-graph verify' 'upload-pack --advertise-refs .' 'receive-pack --advertise-refs .'; do
    echo "$command"
    git $command </dev/null >output
    wc -l <output
done
rm -f output
sed -i '/logAllRefUpdates$/d' .git/config

## how git calls its directory where a work tree is named
repository tree
mkdir -p tree/sub
setup() { GIT_TRACE_SETUP=1 "$@" 2>&1 | sed -n "s,.*setup: ,,p"; }
for top in .. sub "$PWD/tree" "$PWD/tree/nowhere"; do
    for from in tree tree/sub tree/.git; do
        echo "$top from $from"
        (cd $from && GIT_WORK_TREE=$top setup git symbolic-ref HEAD)
        (cd $from && setup git --work-tree="$top" symbolic-ref HEAD)
    done
done
stock -C tree config core.worktree ..
setup git -C tree/sub symbolic-ref HEAD

## attributes that cannot be looked up
# state: no-log-of-HEAD
# needs git: 2.47
# exits: 128 128 128 128 128 128 128 128
history 3
# Of the same length, so that the file must be read whenever it was written.
tr '[:alnum:]' x <dir1/file1 >other
cat other >dir1/file1
rm other
export GIT_ATTR_NOSYSTEM=x
git pack-objects --all --stdout -q </dev/null
git repack -adq
git stash
git stash list
git add -n .
git hash-object dir1/file1
echo y | git hash-object --stdin
echo y | git hash-object --stdin --path=a
git update-index --refresh
git update-index dir1/file1
git write-tree
git commit-graph write
git for-each-ref
GIT_ATTR_NOSYSTEM=yes git stash

## extensions of values that are none
# exits: 128 128 128 128
history 1
stock config core.repositoryFormatVersion 1
cp .git/config kept
for line in 'objectFormat = foo' refStorage 'refStorage = foo' objectFormat; do
    printf '[extensions]\n\t%s\n' "$line" >>.git/config
    git show-ref
    cp kept .git/config
done
rm kept

## a HEAD that leads nowhere makes no repository, unless it leads to a branch
# exits: 128
history 1
rm .git/HEAD
ln -s nothing .git/HEAD
git show-ref
rm .git/HEAD
ln -s refs/heads/none .git/HEAD
git show-ref

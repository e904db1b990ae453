# Refs put together.
# in: files reftable

## all of them
history 3
stock branch a
stock tag -a -m note v1
stock tag light
git pack-refs --all
git for-each-ref

## tags, and what was packed before
# in: files
history 2
stock branch a
stock tag v1
git pack-refs
stock branch b
git pack-refs --all
stock update-ref refs/heads/a HEAD~1
git pack-refs
cat .git/packed-refs

## loose ones stay where they are asked to
# in: files
history 2
stock branch a
git pack-refs --all --no-prune
git pack-refs --all --prune

## chosen by patterns
# in: files
history 2
stock branch a
stock branch b
stock tag v1
git pack-refs --include 'refs/heads/*' --exclude refs/heads/b

## an exclusion, and all
# in: files
history 2
stock branch a
stock tag v1
git pack-refs --all --exclude 'refs/tags/*'
git pack-refs --exclude 'refs/tags/*'

## patterns are taken back
# in: files
history 2
stock branch a
stock tag v1
git pack-refs --include 'refs/heads/*' --no-include
git pack-refs --all --exclude 'refs/heads/*' --no-exclude

## symbolic refs and broken ones stay loose
# in: files
# state: no-fsck
history 1
stock symbolic-ref refs/heads/alias refs/heads/main
echo 1111111111111111111111111111111111111111 >.git/refs/heads/broken
git pack-refs --all
stock for-each-ref --format='%(refname)' refs/heads/alias

## a packed-refs that is locked
# in: files
# exits: 128
history 1
: >.git/packed-refs.lock
git -c core.packedRefsTimeout=0 pack-refs --all

## where it is asked whether it is time
# in: files
history 1
git pack-refs --auto
git pack-refs --all --auto

## in a repository without refs
repository
git pack-refs --all

## options that are not there
# masks: usage
# exits: 129 129
history 1
git pack-refs --bogus
git pack-refs more

## packed-refs is a symbolic link
# in: files
history 1
git pack-refs --all
mv .git/packed-refs .git/elsewhere
ln -s elsewhere .git/packed-refs
git branch more
git pack-refs --all
git update-ref -d refs/heads/more
readlink .git/packed-refs
cat .git/elsewhere

## messages name files as git sees them
# in: files sha1 sha256
# exits: any
history 2
mkdir sub
stock pack-refs --all
stock clone -q --bare . bare.git
# everywhere ARGUMENTS: the command in and outside of repositories.
everywhere() {
    git "$@"
    git -C sub "$@"
    git --git-dir=.git "$@"
    (cd sub && GIT_DIR=../.git git "$@")
    git -C bare.git "$@"
    git --git-dir=bare.git "$@"
    git -C bare.git/refs "$@"
}
for git_dir in .git bare.git; do
    cp "$git_dir/packed-refs" "$git_dir/whole"
    echo 'bogus content' >>"$git_dir/packed-refs"
done
everywhere show-ref
everywhere pack-refs --all
for git_dir in .git bare.git; do
    printf cut >"$git_dir/packed-refs"
done
everywhere for-each-ref
for git_dir in .git bare.git; do
    mv "$git_dir/whole" "$git_dir/packed-refs"
    mkdir -p "$git_dir/refs/heads/in-the-way/below"
    : >"$git_dir/refs/heads/in-the-way/below/file.lock"
done
everywhere update-ref refs/heads/in-the-way main

## a linked work tree packs its own reftables
# in: reftable
history 2
stock worktree add -q -b side ../wt
export GIT_TEST_REFTABLE_AUTOCOMPACTION=false
for dir in . ../wt; do
    for name in a b c; do
        stock -C "$dir" update-ref refs/worktree/$name HEAD
        stock -C "$dir" update-ref refs/heads/$name HEAD
    done
done
count() { for list in .git/reftable/tables.list .git/worktrees/wt/reftable/tables.list; do wc -l <$list; done; }
git -C ../wt pack-refs
count
git pack-refs
count
git for-each-ref
rm -r ../wt

## a file that cannot be written
# in: files
# exits: 1 128
history 2
stock branch a
stock pack-refs --all
mkdir -p .git/packed-refs.new/full
git update-ref -d refs/heads/a
git update-ref refs/heads/b HEAD
git pack-refs --all
git for-each-ref
rm -r .git/packed-refs.new

## in quarantine
# in: files
# exits: 128
history 2
GIT_QUARANTINE_PATH=x git pack-refs --all
git for-each-ref

## a packed-refs without a line that is a ref is no empty list
# in: files sha1 sha256
# exits: 128 128 128 128 128 128 128
# masks: words
# state: no-fsck
history 2
git branch side
stock init -q --bare server
stock push -q server main side
stock clone -q server clone 2>/dev/null
stock -C server pack-refs --all
printf '# pack-refs with: peeled fully-peeled sorted \njunk\n' >server/packed-refs
git -C clone fetch -q --prune
git -C clone -c protocol.version=0 fetch -q --prune
git -C clone fetch -q --prune ../server 'refs/heads/s*:refs/heads/s*'
git -C clone for-each-ref
git -C server for-each-ref refs/heads
git -C server show-ref --verify refs/heads/side
git -C server symbolic-ref HEAD
git -C server update-ref refs/heads/new $(git rev-parse HEAD)
rm server/packed-refs

## loose refs that stay
# in: files
# needs git: 2.55
# exits: 128
history 2
stock branch other
ln -s main .git/refs/heads/link
: >.git/refs/heads/other.lock
git pack-refs --all
rm .git/refs/heads/other.lock
sed 1d .git/packed-refs
ls .git/refs/heads
rm .git/refs/heads/link
GIT_NAMESPACE=a..b git pack-refs --all

## tabs in packed-refs, and headers
# in: files
# needs git: 2.55
# exits: 128 128
history 2
id=$(stock rev-parse HEAD)
for header in '# pack-refs with: peeled fully-peeled sorted ' '# pack-refs with: sorted'; do
    printf '%s\n%s\trefs/heads/a\n%s refs/heads/b\n%s\trefs/heads/c\n' "$header" $id $id $id >.git/packed-refs
    git show-ref
    git for-each-ref
    git show-ref --verify refs/heads/c
    git update-ref -d refs/heads/b
    git update-ref refs/heads/a HEAD~1 HEAD
    git for-each-ref
    rm .git/packed-refs .git/refs/heads/a
done
for header in '# pack-refs with:' '# pack-refs with:sorted'; do
    printf '%s\n%s refs/heads/a\n' "$header" $id >.git/packed-refs
    git show-ref
done
rm .git/packed-refs

## automatic packing that is not worthwhile needs no lock
# in: files
# needs git: 2.55
history 2
: >.git/packed-refs.lock
git -c core.packedRefsTimeout=0 pack-refs --auto
rm .git/packed-refs.lock

## tables of a reftable that are locked are not merged
# in: reftable
# needs git: 2.55
# exits: 255 255 255
history 2
export GIT_TEST_REFTABLE_AUTOCOMPACTION=false
for name in one two three; do
    git update-ref refs/heads/$name HEAD
done
unset GIT_TEST_REFTABLE_AUTOCOMPACTION
tables() {
    wc -l <.git/reftable/tables.list
}
for line in 2 1; do
    lock=.git/reftable/$(sed -n ${line}p .git/reftable/tables.list).lock
    : >"$lock"
    git pack-refs --all
    tables
    git pack-refs --auto
    tables
    git update-ref "refs/heads/more-$line" HEAD
    tables
    rm "$lock"
done
: >.git/reftable/tables.list.lock
git -c reftable.lockTimeout=0 pack-refs --all
rm .git/reftable/tables.list.lock
git pack-refs --all
tables
git for-each-ref

## settings of the blocks of reftables, and what is none
# in: reftable
# needs git: 2.55
# exits: 128 128 128 128 128 128 128 128 128 128
history 2
number=0
while [ $number -lt 200 ]; do
    number=$((number + 1))
    echo "create refs/heads/branch-$number HEAD"
done | stock update-ref --stdin
show() {
    git "$@" pack-refs --all
    echo "$? $*"
    for table in $(cat .git/reftable/tables.list); do
        wc -c <".git/reftable/$table"
        od -An -tx1 -N 8 ".git/reftable/$table"
    done
}
for size in 0 1 100 256 8192 16777215 16777216 16m -1 bad ''; do
    show -c "reftable.blockSize=$size"
done
for interval in 0 1 100 65535 65536 -1 bad; do
    show -c "reftable.restartInterval=$interval"
done
for switch in true false bad ''; do
    show -c "reftable.indexObjects=$switch"
done
show -c reftable.blockSize
show -c reftable.indexObjects

## which commands write packed-refs again
# in: files
# needs git: 2.55
history 2
stock branch a
stock tag -a -m x v1
git pack-refs --all
: >before
touched() {
    stat -c %i .git/packed-refs >now
    cmp -s now before && echo the same || echo another
    mv now before
}
touched
for words in 'pack-refs' 'pack-refs --all --no-prune' 'update-ref refs/heads/new HEAD' 'update-ref -d refs/heads/new' 'update-ref refs/heads/a HEAD~1' \
    'symbolic-ref refs/heads/s refs/heads/main' 'symbolic-ref -d refs/heads/s' 'update-ref -d refs/heads/none'; do
    git $words
    touched
done
rm before

## a last line of packed-refs that is too short
# in: files
# needs git: 2.55
# exits: 128 128 128 128 128 128 128 128 128 128 128 128
history 2
id=$(stock rev-parse HEAD)
for junk in junk '# more'; do
    printf '# pack-refs with: peeled fully-peeled sorted \n%s refs/heads/a\n%s refs/heads/b\n%s\n' $id $id "$junk" >.git/packed-refs
    git for-each-ref
    git for-each-ref --format='%(refname)'
    git show-ref --verify refs/heads/a
    git refs exists refs/heads/a
    git update-ref -d refs/heads/a
    git pack-refs --all
done
rm .git/packed-refs

## packed-refs is a directory, or a link to itself
# in: files
# needs git: 2.55
# exits: 128 128 128 128 128 128 128 128 128 128 128 128 128 128
history 2
for make in 'mkdir .git/packed-refs' 'ln -s packed-refs .git/packed-refs'; do
    $make
    git for-each-ref
    git show-ref --exists refs/heads/none
    git update-ref -d refs/heads/main
    git update-ref refs/heads/new HEAD
    git pack-refs --all
    git reflog delete main@{0}
    git reflog expire --all
    rm -r .git/packed-refs
done

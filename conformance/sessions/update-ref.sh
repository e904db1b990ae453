# Refs changed one at a time, with old values, reasons and reflogs.
# in: files reftable

## a branch is made, moved and deleted
# in: sha1 sha256
history 3
git update-ref refs/heads/a HEAD~2
git update-ref -m 'moved it' refs/heads/a HEAD~1 HEAD~2
git rev-parse a
git update-ref -d refs/heads/a HEAD~1
git update-ref -d refs/heads/a

## a wrong old value changes nothing
# exits: 128 1 128
history 3
git update-ref refs/heads/a HEAD~2
git update-ref refs/heads/a HEAD HEAD~1
git update-ref -d refs/heads/a HEAD
git update-ref refs/heads/b HEAD HEAD
git rev-parse a

## zeros as the old value ask for a ref that is not there
# exits: 128
history 2
zeros=0000000000000000000000000000000000000000
git update-ref refs/heads/new HEAD "$zeros"
git update-ref refs/heads/new HEAD~1 "$zeros"
git update-ref refs/heads/other HEAD ''

## HEAD is followed, and has a reflog of its own
# exits: 1
history 3
git update-ref -m 'back by one' HEAD HEAD~1
git update-ref --no-deref -m 'detach' HEAD HEAD~1
git symbolic-ref -q HEAD || echo detached
git rev-parse main HEAD

## a symbolic ref is followed unless it is told not to
history 2
git symbolic-ref refs/heads/alias refs/heads/main
git update-ref refs/heads/alias HEAD~1
git rev-parse main
git update-ref --no-deref -d refs/heads/alias
git rev-parse main

## a branch through a dangling symbolic ref
history 1
git symbolic-ref refs/heads/alias refs/heads/later
git update-ref refs/heads/alias HEAD
git rev-parse later

## names that are no refs
# exits: 128 128 128 128 128
history 1
git update-ref refs/heads/a..b HEAD
git update-ref refs/heads/.hidden HEAD
git update-ref refs/heads/a.lock HEAD
git update-ref 'refs/heads/with space' HEAD
git update-ref refs/heads/ HEAD

## a name below a ref, and a ref in place of a folder
# exits: 128 128
history 1
git update-ref refs/heads/a HEAD
git update-ref refs/heads/a/b HEAD
git update-ref refs/heads/c/d HEAD
git update-ref refs/heads/c HEAD

## what is no object
# needs git: 2.55
# exits: 128 128 128
history 1
git update-ref refs/heads/a nothing
git update-ref refs/heads/a HEAD nothing
git update-ref refs/heads/a 1111111111111111111111111111111111111111

## a branch takes commits, a tag anything
# needs git: 2.55
# exits: 128
history 1
git update-ref refs/tags/tree HEAD^{tree}
git update-ref refs/heads/tree HEAD^{tree}
git for-each-ref

## arguments that are too few or too many
# masks: usage
# exits: 129 129 129 129 129
history 1
git update-ref
git update-ref refs/heads/a
git update-ref refs/heads/a HEAD HEAD HEAD
git update-ref -d
git update-ref -z refs/heads/a HEAD

## an unknown option
# masks: usage
# exits: 129 129 129
history 1
git update-ref --bogus refs/heads/a HEAD
git update-ref -x refs/heads/a HEAD
git update-ref -m

## a reflog is made where it is asked for
# exits: 1
history 1
git update-ref --create-reflog -m 'why not' refs/odd/one HEAD
git update-ref -m 'no log' refs/odd/two HEAD
git reflog exists refs/odd/one && echo one
git reflog exists refs/odd/two || echo not two

## an empty reason is refused
# exits: 128
history 1
git update-ref -m '' refs/heads/a HEAD

## core.logAllRefUpdates decides which refs have logs
history 2
git -c core.logAllRefUpdates=always update-ref refs/tags/a HEAD
git -c core.logAllRefUpdates=false update-ref refs/heads/b HEAD
git -c core.logAllRefUpdates=true update-ref refs/notes/c HEAD
git update-ref refs/tags/a HEAD~1

## in a bare repository no log is kept unless it is asked for
history 1 from
stock clone -q --bare from bare.git
git -C bare.git update-ref refs/heads/a main
git -C bare.git -c core.logAllRefUpdates=true update-ref refs/heads/b main

## the same value again
history 2
git update-ref -m again refs/heads/main HEAD
git update-ref -m again HEAD HEAD

## the value may be named in many ways
history 4
stock tag -a -m annotated v1 HEAD~1
git update-ref refs/heads/a v1^{commit}
git update-ref refs/tags/b v1
git update-ref refs/heads/c main~2
git update-ref refs/heads/d "$(stock rev-parse --short HEAD)"
git update-ref refs/heads/e @

## pseudo-refs beside HEAD
history 2
git update-ref ORIG_HEAD HEAD~1
git update-ref -d ORIG_HEAD
git update-ref MY_HEAD HEAD

## a ref that another process holds
# in: files
# exits: 128
history 1
: >.git/refs/heads/a.lock
git -c core.filesRefLockTimeout=0 update-ref refs/heads/a HEAD

## deleting what is packed
history 2
git update-ref refs/heads/a HEAD
git pack-refs --all
git update-ref -d refs/heads/a
git update-ref -d refs/heads/main HEAD
git for-each-ref

## an unchanged packed ref stays packed
# in: files
history 1
git pack-refs --all
git update-ref refs/heads/main HEAD
find .git/refs -type f

## a directory with other files is in the way
# in: files
# masks: words
# exits: 128
history 1
mkdir -p .git/refs/heads/a/b .git/refs/heads/c/d
: >.git/refs/heads/a/b/x.lock
git update-ref refs/heads/a HEAD
git update-ref refs/heads/c HEAD

## --end-of-options
history 1
git update-ref --end-of-options refs/heads/a HEAD
git for-each-ref --end-of-options refs/heads
git show-ref --end-of-options refs/heads/a
git reflog exists --end-of-options refs/heads/main

## updates in batches without a list
# needs git: 2.50
# exits: 128
history 2
git update-ref --batch-updates refs/heads/x HEAD

## values found by messages
# needs git: 2.55
# in: files reftable sha1 sha256
# exits: 128 128 128 128 128 128 128 128
repository
for message in first 'second: x' 'third

body }brace' '!odd' '(paren'; do
    tick
    stock commit -q --allow-empty -m "$message"
done
stock checkout -q --detach HEAD~3
tick
stock commit -q --allow-empty -m 'second side'
stock update-ref refs/other/x HEAD
stock checkout -q main
stock tag -a -m 'second of all' second HEAD~3
stock checkout -q --detach
tick
stock commit -q --allow-empty -m detached
for name in ':/second' ':/first' ':/x|nothing' ':/body' ':/third.*body' ':/!!odd' ':/!-second' ':/\(paren' ':/detached' 'HEAD^{/second}' 'HEAD^{/second: x}' \
    'HEAD^{/second: x}:' 'HEAD^{/first}~0' 'HEAD^{/second}~1' 'HEAD^{/}' 'HEAD^{/!-det}' 'HEAD^{/body }brace}' 'second^{/third|first}' 'HEAD~2^{/second}^{tree}' main^{/paren}^^{/odd}; do
    echo "$name"
    git update-ref refs/values/one "$name"
    git for-each-ref --format='%(objectname)' refs/values
done
for name in ':/' ':/^body' ':/!odd' ':/SECOND' 'HEAD^{/nothing}' 'HEAD^{/!odd}' 'HEAD^{/second' 'none^{/first}'; do
    git update-ref refs/values/one "$name"
done

## values named by reflogs, by what was checked out before, by upstreams and by the index
# in: files reftable sha1 sha256
# exits: 128 128 128 128 128
history 4
stock branch side HEAD~2
stock checkout -q side
commit ahead
stock checkout -q main
stock config branch.main.remote .
stock config branch.main.merge refs/heads/side
stock commit -q --allow-empty -m one
stock commit -q --allow-empty -m two
for name in HEAD@{0} @{0} @{1} main@{1}^ heads/main@{1}~1 'main@{1}^{tree}' @{-1} @{-1}~1 @{u} main@{upstream} main@{now} main@{2100-01-01} :dir1/file1 :0:dir1/file1; do
    git update-ref refs/values/one "$name"
    git for-each-ref --format='%(objectname)' refs/values
done
git update-ref refs/values/one main@{77}
git update-ref refs/values/one @{-7}
git update-ref refs/values/one side@{u}
git update-ref refs/values/one nothing@{u}
git update-ref refs/values/one :1:dir1/file1
git commit-tree -p main@{1} -m words 'HEAD@{1}^{tree}'

## values named by paths from the current directory, and by entries of a branch that was checked out before
# in: files reftable
# exits: 128 128 128 128 128 128 128 128
history 3
stock checkout -q -b side
commit one
commit two
stock checkout -q main
cd dir1
for name in HEAD:./file1 side:./file1 HEAD:../dir1/file1 HEAD:./ HEAD:../ :./file1 :0:../dir1/file1 HEAD:./../dir1/./file1 @{-1}@{0} @{-1}@{1}~1 '@{-1}@{1}^{tree}' '@{-1}@{2100-01-01 12:00}' '@{-1}@{1}:./file1'; do
    echo "$name"
    git update-ref refs/values/one "$name"
    git for-each-ref --format='%(objectname)' refs/values
done
for name in HEAD:. HEAD:.. HEAD:./none :./none :./ HEAD:../../dir1 @{-7}@{0} @{-1}@{77}; do
    git update-ref refs/values/one "$name"
done

## paths from the current directory, outside of a work tree
# exits: 128 128 128
history 1
git -C .git update-ref refs/values/one HEAD:./file1
git -C .git update-ref refs/values/one :./file1
stock clone -q --bare . bare.git
git -C bare.git update-ref refs/values/one HEAD:./file1

## a checkout that leads to itself
# in: files sha1
# exits: 128 128
history 1
id=$(stock rev-parse HEAD)
printf '%s %s A U Thor <author@example.com> 1 +0000\tcheckout: moving from @{-1} to main\n' $id $id >>.git/logs/HEAD
git update-ref refs/values/one @{-1}
git update-ref refs/values/one @{-1}@{0}

## reftables that are not merged
# in: reftable
history 2
tables() {
    wc -l <.git/reftable/tables.list
}
GIT_TEST_REFTABLE_AUTOCOMPACTION=true git update-ref refs/heads/zero HEAD
git pack-refs
for name in one two three; do
    GIT_TEST_REFTABLE_AUTOCOMPACTION=false git update-ref "refs/heads/$name" HEAD
    tables
done
GIT_TEST_REFTABLE_AUTOCOMPACTION=false git pack-refs
tables

## a directory in the way of a ref that has a value
# in: files
# exits: 128 128 128 128
history 2
mkdir -p .git/refs/heads/in-the-way/below
: >.git/refs/heads/in-the-way/below/file.lock
git update-ref refs/heads/in-the-way HEAD HEAD~1
git update-ref refs/heads/in-the-way HEAD
git symbolic-ref refs/heads/symbolic refs/heads/in-the-way
git update-ref refs/heads/symbolic HEAD HEAD~1
echo 'update refs/heads/in-the-way HEAD HEAD~1' | git update-ref --stdin

## revisions of other kinds
# needs git: 2.55
# exits: 128 128 128 128 128 128 128 128 128 128 128
history 2
tree=$(stock rev-parse HEAD^{tree})
blob=$(echo blob | stock hash-object -w --stdin)
stock update-ref refs/tags/tree $tree
stock tag -a -m tagged annotated $blob
for name in $blob~1 $tree^ tree^0 tree^{commit} annotated~1 annotated^{tree} HEAD^{blob} HEAD^{tag} 'annotated^{/text}'; do
    git update-ref refs/tags/x "$name"
done
git update-ref refs/tags/x annotated^{}
git for-each-ref --format='%(refname) %(objecttype)'
git stash show $blob
git stash branch new $tree

## symbolic refs are not followed where that is no use, whatever else is wrong
# exits: 128 128 128
history 1
for command in symref-delete 'symref-verify refs/heads/bad..name' 'symref-delete refs/heads/main HEAD HEAD'; do
    echo "$command" | git update-ref --stdin
done

## a directory of locks in the way of a ref
# in: files
# state: no-logs
# needs git: 2.55
# exits: 1 128 128 128 128 128 1
history 2
stock update-ref refs/heads/packed HEAD~1
stock symbolic-ref refs/heads/symbolic refs/heads/packed
stock pack-refs --all
mkdir -p .git/refs/heads/none/x .git/refs/heads/packed/x .git/refs/heads/empty/x
: >.git/refs/heads/none/x/y.lock
: >.git/refs/heads/packed/x/y.lock
git update-ref -d refs/heads/none
echo 'verify refs/heads/none' | git update-ref --stdin
for command in 'verify refs/heads/none' 'delete refs/heads/none' 'symref-create refs/heads/none refs/heads/main' 'create refs/heads/packed HEAD'; do
    printf '%s\nupdate refs/heads/other HEAD\n' "$command" | git update-ref --stdin --batch-updates
done
git update-ref refs/heads/packed HEAD
git update-ref refs/heads/packed HEAD HEAD~1
git update-ref refs/heads/packed HEAD HEAD
git update-ref refs/heads/packed HEAD~1 HEAD~1
git update-ref refs/heads/symbolic HEAD HEAD~1
echo 'verify refs/heads/empty' | git update-ref --stdin
ls .git/refs/heads
git for-each-ref
git update-ref -d refs/heads/packed HEAD
git update-ref -d refs/heads/packed HEAD~1
git for-each-ref

## a branch does not change while `HEAD` is locked, whose log gets a line
# in: files
# exits: 128 1 128
# masks: words
history 3
: >.git/HEAD.lock
git update-ref refs/heads/main HEAD~1
git update-ref -d refs/heads/main
git update-ref refs/heads/other HEAD~1
printf 'update refs/heads/main HEAD~1\n' | git update-ref --stdin
rm .git/HEAD.lock
git update-ref refs/heads/main HEAD~1

## to a commit of which half is stored
# in: files
# exits: 128 128 128 128 128 128
# masks: paths repeats
history 2
id=$(stock rev-parse HEAD)
file=.git/objects/$(echo "$id" | sed 's|..|&/|')
chmod u+w "$file"
cp "$file" whole
for size in $(($(wc -c <whole) / 2)) 12; do
    truncate -s "$size" "$file"
    git update-ref refs/heads/side HEAD
    git update-ref refs/tags/side "$id"
    echo "create refs/tags/side $id" | git update-ref --stdin
done
cat whole >"$file"
rm whole
git update-ref refs/heads/side HEAD

## a file where logs have a directory
# in: files
# exits: 128 128 128
# masks: paths
history 2
mv .git/logs/refs/heads kept
echo x >.git/logs/refs/heads
git update-ref refs/heads/side HEAD
cat .git/logs/refs/heads
rm -rf .git/logs
echo x >.git/logs
echo 'create refs/heads/side HEAD' | git update-ref --stdin
git update-ref HEAD HEAD~1
cat .git/logs
rm .git/logs
git update-ref HEAD HEAD~1
rm -rf kept

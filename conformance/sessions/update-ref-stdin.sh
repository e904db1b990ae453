# Many refs in one transaction, told on standard input.
# in: files reftable

## all or nothing
# exits: 128
history 3
git update-ref --stdin <<EOF
create refs/heads/a HEAD
create refs/heads/b HEAD~1
update refs/heads/main HEAD~1 HEAD
EOF
git update-ref --stdin <<EOF
delete refs/heads/a
update refs/heads/b HEAD HEAD~2
EOF
git for-each-ref

## steps of a transaction are answered
history 2
git update-ref --stdin <<EOF
start
create refs/heads/a HEAD
prepare
commit
start
create refs/heads/b HEAD
abort
start
delete refs/heads/a HEAD
commit
EOF
git for-each-ref

## what is prepared and not committed is forgotten
history 1
git update-ref --stdin <<EOF
start
create refs/heads/a HEAD
prepare
EOF
git for-each-ref

## verify asks for a value and changes nothing
# differs in files: git writes a line of a deletion into the reflog of HEAD, though the branch is there
# exits: 128 128
history 2
git update-ref --stdin <<EOF
verify refs/heads/main HEAD
verify refs/heads/none
EOF
echo 'verify refs/heads/main HEAD~1' | git update-ref --stdin
echo 'verify refs/heads/main' | git update-ref --stdin

## with NULs instead of lines
# exits: 128
history 2
printf 'create refs/heads/a\0HEAD\0update refs/heads/main\0HEAD~1\0HEAD\0' | git update-ref -z --stdin
printf 'update refs/heads/a\0HEAD~1\0\0delete refs/heads/main\0\0' | git update-ref -z --stdin
git for-each-ref

## an option for one ref
history 2
git symbolic-ref refs/heads/alias refs/heads/main
printf 'option no-deref\nupdate refs/heads/alias HEAD~1\nupdate refs/heads/main HEAD~1\n' | git update-ref --stdin
git for-each-ref --format='%(refname) %(objectname) %(symref)'

## lines that make no sense
# exits: 128 128 128 128 128 128 128 128
history 1
echo 'make refs/heads/a HEAD' | git update-ref --stdin
echo ' create refs/heads/a HEAD' | git update-ref --stdin
echo | git update-ref --stdin
echo 'create refs/heads/a' | git update-ref --stdin
echo 'create refs/heads/a HEAD HEAD' | git update-ref --stdin
echo 'create' | git update-ref --stdin
echo 'option nonsense' | git update-ref --stdin
echo 'create "refs/heads/a' | git update-ref --stdin

## transactions out of order
# exits: 128 128 128 128
history 1
printf 'start\nstart\n' | git update-ref --stdin
printf 'commit\ncommit\n' | git update-ref --stdin
printf 'prepare\ncreate refs/heads/a HEAD\n' | git update-ref --stdin
printf 'start\ncommit\ncreate refs/heads/a HEAD\n' | git update-ref --stdin

## one ref twice
# exits: 128
history 2
git update-ref --stdin <<EOF
create refs/heads/a HEAD
update refs/heads/a HEAD~1
EOF

## create and delete want values that are not zero
# exits: 128 128 128
history 1
zeros=0000000000000000000000000000000000000000
echo "create refs/heads/a $zeros" | git update-ref --stdin
echo "delete refs/heads/main $zeros" | git update-ref --stdin
echo "update refs/heads/main $zeros" | git update-ref --stdin
echo 'create refs/heads/a nothing' | git update-ref --stdin

## a ref below another of the same transaction
# needs git: 2.55
# exits: 128
history 1
git update-ref --stdin <<EOF
create refs/heads/a HEAD
create refs/heads/a/b HEAD
EOF

## a folder makes place for a ref that is deleted
# exits: 128
history 1
git update-ref refs/heads/a/b HEAD
git update-ref --stdin <<EOF
delete refs/heads/a/b
create refs/heads/a HEAD
EOF
git for-each-ref

## names in quotes
history 1
printf 'create "refs/heads/\\303\\244" HEAD\n' | git update-ref --stdin
git for-each-ref

## a value with a path of spaces
repository
mkdir 'a b'
echo text >'a b/c d'
stock add .
stock commit -qm one
printf 'create refs/tags/blob "HEAD:a b/c d"\n' | git update-ref --stdin
printf 'create refs/tags/other\0HEAD:a b/c d\0' | git update-ref -z --stdin
git for-each-ref

## symbolic refs are made
# in: files reftable
history 1
git update-ref --stdin <<EOF
symref-create refs/heads/alias refs/heads/main
symref-create refs/heads/later refs/heads/none
EOF
git for-each-ref --format='%(refname) %(symref)'
git symbolic-ref refs/heads/later

## symbolic refs are changed and deleted
# exits: 128
history 2
git update-ref refs/heads/b HEAD~1
git symbolic-ref refs/heads/alias refs/heads/main
echo 'symref-update refs/heads/alias refs/heads/b ref refs/heads/main' | git update-ref --no-deref --stdin
git symbolic-ref refs/heads/alias
echo 'symref-update refs/heads/alias refs/heads/main oid HEAD' | git update-ref --no-deref --stdin
echo 'symref-delete refs/heads/alias refs/heads/b' | git update-ref --no-deref --stdin
git for-each-ref

## a symbolic ref is checked
# exits: 128
history 1
git symbolic-ref refs/heads/alias refs/heads/main
echo 'symref-verify refs/heads/alias refs/heads/main' | git update-ref --no-deref --stdin
echo 'symref-verify refs/heads/alias refs/heads/other' | git update-ref --no-deref --stdin
echo 'symref-verify refs/heads/none' | git update-ref --no-deref --stdin

## symbolic refs need --no-deref where they are followed otherwise
# exits: 128 128 128
history 1
git symbolic-ref refs/heads/alias refs/heads/main
echo 'symref-update refs/heads/alias refs/heads/b' | git update-ref --stdin
git symbolic-ref refs/heads/alias
echo 'symref-delete refs/heads/alias' | git update-ref --stdin
echo 'symref-verify refs/heads/alias refs/heads/main' | git update-ref --stdin
echo 'symref-create refs/heads/alias' | git update-ref --stdin

## symbolic refs, with NULs
history 1
printf 'symref-create refs/heads/alias\0refs/heads/main\0' | git update-ref -z --no-deref --stdin
printf 'symref-update refs/heads/alias\0refs/heads/b\0ref\0refs/heads/main\0' | git update-ref -z --no-deref --stdin
git symbolic-ref refs/heads/alias
printf 'symref-delete refs/heads/alias\0refs/heads/b\0' | git update-ref -z --no-deref --stdin

## too much behind a symbolic ref
# exits: 128 128 128 128
history 1
git symbolic-ref refs/heads/alias refs/heads/main
echo 'symref-create refs/heads/x refs/heads/main more' | git update-ref --no-deref --stdin
echo 'symref-update refs/heads/alias refs/heads/b ref' | git update-ref --no-deref --stdin
echo 'symref-update refs/heads/alias refs/heads/b what refs/heads/main' | git update-ref --no-deref --stdin
echo 'symref-delete refs/heads/alias refs/heads/main more' | git update-ref --no-deref --stdin

## -z alone and --stdin with a ref
# masks: usage
# exits: 129 129
history 1
git update-ref --stdin refs/heads/a </dev/null
git update-ref --stdin -d </dev/null

## hooks hear of a transaction
# differs: of a branch that HEAD names, only the branch is told
history 2
mkdir -p .git/hooks
cat >.git/hooks/reference-transaction <<'EOF'
#!/bin/sh
[ "$1" = preparing ] && exit
echo "state $1" >>told
cat >>told
EOF
chmod +x .git/hooks/reference-transaction
printf 'create refs/heads/a HEAD\nupdate refs/heads/main HEAD~1\n' | git update-ref --stdin
cat told

## a hook forbids
# differs: the words are those of git 2.55
# exits: 128
history 2
mkdir -p .git/hooks
printf '#!/bin/sh\n[ "$1" != prepared ]\n' >.git/hooks/reference-transaction
chmod +x .git/hooks/reference-transaction
printf 'create refs/heads/a HEAD\n' | git update-ref --stdin
git for-each-ref

## objects come before old values
# needs git: 2.55
# exits: 128 128 128 128 128
history 2
none=$(printf %040d 1)
tree=$(stock rev-parse 'HEAD^{tree}')
git update-ref refs/heads/new "$none"
git update-ref refs/heads/main "$tree" HEAD~1
echo "update refs/heads/main $none HEAD~1" | git update-ref --stdin
printf 'create refs/heads/new\0%s\0' "$none" | git update-ref --stdin -z
git update-ref --stdin <<EOF
start
update refs/heads/main $tree
prepare
EOF

## a dangling symbolic ref is not absent
# needs git: 2.55
# exits: 128 128 128
history 1
git symbolic-ref refs/heads/link refs/heads/none
echo 'create refs/heads/link HEAD' | git update-ref --no-deref --stdin
git update-ref --no-deref refs/heads/link HEAD "$(printf %040d 0)"
echo 'verify refs/heads/link' | git update-ref --no-deref --stdin
echo 'create refs/heads/link HEAD' | git update-ref --stdin
git for-each-ref

## a batch rejects what a symbolic ref leads to
# needs git: 2.55
# differs: git writes lines into the reflogs of symbolic refs whose change it rejects
history 2
git symbolic-ref refs/heads/link refs/heads/none
git symbolic-ref refs/heads/other refs/heads/main
git update-ref --stdin --batch-updates <<EOF
delete refs/heads/link HEAD
create refs/heads/other HEAD
create refs/heads/new $(printf %040d 1)
update refs/heads/main $(printf %040d 1) HEAD~1
create refs/heads/new HEAD
EOF
git for-each-ref

## what is not committed leaves no directories
# in: files
# needs git: 2.55
history 1
git update-ref --stdin <<EOF
create refs/heads/a/b/c HEAD
prepare
abort
EOF
git update-ref --stdin <<EOF
create refs/heads/x/y HEAD
prepare
EOF
find .git/refs -type d | sort

## a batch that changes HEAD and its branch
# needs git: 2.55
# in: files reftable
history 3
git update-ref --stdin --batch-updates <<EOF
update refs/heads/main HEAD~1
update HEAD HEAD~2
update refs/heads/new HEAD
EOF
git reflog show HEAD
git reflog show main
git update-ref --stdin --batch-updates --no-deref <<EOF
update refs/heads/main $(stock rev-parse new) $(stock rev-parse new)
symref-update HEAD refs/heads/new
create refs/heads/other $(stock rev-parse new)
EOF
git symbolic-ref HEAD
git for-each-ref

## a batch in which HEAD comes before its branch
# needs git: 2.55
# in: reftable
history 3
git update-ref --stdin --batch-updates <<EOF
update HEAD HEAD~2
update refs/heads/main HEAD~1
EOF
git update-ref --stdin --batch-updates --no-deref <<EOF
update HEAD HEAD~1 $(printf %040d 1)
update refs/heads/main HEAD~1
EOF
git for-each-ref

## a batch with files in which HEAD comes before its branch
# needs git: 2.55
# in: files
# exits: 128
# differs: git ends with "HEAD has been racily updated"; here all is as with reftables
history 3
git update-ref --stdin --batch-updates <<EOF
update HEAD HEAD~2
update refs/heads/main HEAD~1
EOF
git for-each-ref

## a locked ref in a batch
# in: files
# needs git: 2.55
history 3
stock branch a HEAD~1
touch .git/refs/heads/a.lock
printf 'update refs/heads/a HEAD\ncreate refs/heads/b HEAD\ndelete refs/heads/a\n' | git update-ref --stdin --batch-updates
rm .git/refs/heads/a.lock
git for-each-ref

## names in the way of each other, found when refs are locked
# needs git: 2.55
# exits: 128 128 128 128 128 128 128 128
history 2
stock branch a/b
stock branch x
conflict() {
    for mode in '' --batch-updates; do
        printf "$1" | git update-ref --stdin $mode
        git for-each-ref
        stock for-each-ref --format='delete %(refname)' refs/heads/n refs/heads/new | stock update-ref --stdin
    done
}
for packed in no yes; do
    conflict 'create refs/heads/n/m HEAD\ncreate refs/heads/n HEAD\n'
    conflict 'create refs/heads/n/m HEAD\ncreate refs/heads/new HEAD\ncreate refs/heads/n HEAD\ncreate refs/heads/x HEAD\n'
    conflict 'create refs/heads/a/b/c HEAD\ncreate refs/heads/a HEAD\n'
    conflict 'create refs/heads/n/m HEAD\nupdate refs/heads/n HEAD HEAD~1\n'
    stock pack-refs --all
done

## names in the way come after values
# needs git: 2.55
# exits: 128 128 128
history 2
stock branch a/b
stock branch x
stock pack-refs --all
for other in 'create refs/heads/x HEAD' 'update refs/heads/x HEAD HEAD~1' 'symref-create refs/heads/x refs/heads/main'; do
    for mode in '' --batch-updates; do
        printf 'create refs/heads/a HEAD\n%s\n' "$other" | git update-ref --stdin $mode
    done
done

## objects are looked for when commands are read
# exits: 128 128 128
# needs git: 2.55
history 2
missing=$(printf %040d 1)
printf 'create refs/heads/main HEAD\nupdate refs/heads/z %s\n' $missing | git update-ref --stdin
printf 'start\nupdate refs/heads/z %s\nabort\n' $missing | git update-ref --stdin
printf 'update refs/heads/z %s\nnonsense\n' $missing | git update-ref --stdin

## a folder of locks in the way of one of a batch
# in: files
# needs git: 2.55
# exits: 128
history 3
mkdir -p .git/refs/heads/n/m
: >.git/refs/heads/n/m/x.lock
printf 'symref-create refs/heads/n refs/heads/main\ncreate refs/heads/ok HEAD\n' | git update-ref --stdin --batch-updates
printf 'create refs/heads/n HEAD\ncreate refs/heads/two HEAD\n' | git update-ref --stdin --batch-updates
printf 'symref-create refs/heads/n refs/heads/main\n' | git update-ref --stdin
rm -r .git/refs/heads/n

## what is no commit, for a branch, with NULs
# in: files reftable sha1 sha256
# needs git: 2.55
# exits: 128 128 128
history 2
stock tag -a -m x v1
for name in HEAD:dir1/file1 HEAD^{tree} v1; do
    printf "create refs/heads/x\0$name\0create refs/heads/y\0HEAD\0" | git update-ref -z --stdin
done
printf 'create refs/heads/x\0HEAD^{tree}\0create refs/heads/y\0HEAD\0' | git update-ref -z --stdin --batch-updates
printf 'create refs/tags/x\0HEAD:dir1/file1\0' | git update-ref -z --stdin
git for-each-ref

## lines with a NUL
# in: files reftable sha1 sha256
# needs git: 2.55
# exits: 128 128 128 128 128 128 128 128 128 128
history 1
for line in 'create refs/heads/x HEAD\0' 'create refs/heads/x HEAD\0 more' 'create refs/heads/x\0y HEAD' 'create refs/he\0ads/x HEAD' 'create refs/heads/x "HEAD\0"' \
    'verify refs/heads/none\0' 'delete refs/heads/main\0' 'symref-create refs/heads/x refs/heads/main\0' 'start\0' '\0'; do
    printf "$line\n" | git update-ref --stdin
done
git for-each-ref

## push destinations that are not known
# exits: 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128
history 3
tried() {
    for default in nothing current matching upstream simple; do
        printf 'update refs/heads/%s @{push}\n' "$1-$default" | git -c push.default=$default update-ref --stdin
    done
}
tried none
printf 'update refs/heads/x @{upstream}\n' | git update-ref --stdin
stock config remote.origin.url ./x
stock config remote.origin.fetch '+refs/heads/*:refs/remotes/origin/*'
stock config branch.main.remote origin
stock config branch.main.merge refs/heads/other
tried merge
stock update-ref refs/remotes/origin/other HEAD~1
stock update-ref refs/remotes/origin/main HEAD~2
tried both
stock config remote.origin.push refs/heads/zzz:refs/heads/zzz
tried push
stock config remote.origin.push refs/heads/main:refs/heads/nowhere
tried nowhere
stock config --unset remote.origin.push
stock config branch.main.pushRemote elsewhere
tried elsewhere
stock symbolic-ref HEAD refs/heads/unborn
tried unborn

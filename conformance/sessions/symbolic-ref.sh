# Refs that name other refs.
# in: files reftable

## HEAD is read, in short too
history 1
git symbolic-ref HEAD
git symbolic-ref --short HEAD
git symbolic-ref -q HEAD

## HEAD is changed, with a reason
history 2
git branch other HEAD~1
git symbolic-ref -m 'to the other' HEAD refs/heads/other
git symbolic-ref HEAD
git reflog

## a ref that is not symbolic
# exits: 128 1 128
history 1
git symbolic-ref refs/heads/main
git symbolic-ref -q refs/heads/main
git symbolic-ref refs/heads/none

## a detached HEAD
# exits: 128 1
history 1
stock checkout -q --detach
git symbolic-ref HEAD
git symbolic-ref --quiet HEAD

## one is deleted
# exits: 128 128 128 128
history 1
git symbolic-ref refs/heads/alias refs/heads/main
git symbolic-ref --delete refs/heads/alias
git symbolic-ref --delete refs/heads/alias
git symbolic-ref -d HEAD
git symbolic-ref --delete refs/heads/main
git symbolic-ref --delete -q refs/heads/none

## HEAD leads to refs only
# exits: 128 128 128
history 1
git symbolic-ref HEAD main
git symbolic-ref HEAD refs/heads/a..b
git symbolic-ref HEAD HEAD
git symbolic-ref HEAD refs/tags/v1

## other names need no refs/ in their target
# exits: 128
history 1
git symbolic-ref refs/heads/alias refs/heads/later
git symbolic-ref refs/heads/bad 'refs/heads/with space'

## a chain of names
history 1
git symbolic-ref refs/heads/one refs/heads/main
git symbolic-ref refs/heads/two refs/heads/one
git symbolic-ref refs/heads/two
git symbolic-ref --no-recurse refs/heads/two
git symbolic-ref --recurse refs/heads/two

## arguments that are too few or too many
# masks: usage
# exits: 129 129 129 129
history 1
git symbolic-ref
git symbolic-ref HEAD refs/heads/a more
git symbolic-ref --delete
git symbolic-ref --bogus HEAD

## an empty reason
# exits: 128
history 1
git symbolic-ref -m '' HEAD refs/heads/a

## in a linked work tree
# in: files
history 1
stock worktree add -q ../other
cd ../other
git symbolic-ref HEAD
git symbolic-ref HEAD refs/heads/new
git symbolic-ref HEAD
git -C ../work symbolic-ref HEAD
cd ../work
stock worktree remove --force ../other

## names that no ref can have
# exits: 128 128 128 128 128
history 2
git symbolic-ref refs/heads/s @
git symbolic-ref @
git symbolic-ref -q refs/heads/a..b
git symbolic-ref -d refs/heads/a..b
git symbolic-ref refs/heads/s refs/heads/a..b

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

## HEAD is a symbolic link to its branch
# in: files
history 2
stock branch side HEAD~1
ln -sf refs/heads/main .git/HEAD
git symbolic-ref HEAD
git symbolic-ref --short HEAD
git for-each-ref --format='%(refname) %(HEAD)'
git ls-remote --symref .
git update-ref -m back HEAD HEAD~1
git reflog refs/heads/main
git update-index --refresh
git stash list
ls -l .git/HEAD | sed 's/.* -> //'

## HEAD is a symbolic link to a branch that is packed, or not there
# in: files
# exits: 128 128
history 2
stock branch side HEAD~1
stock pack-refs --all
rm -rf .git/refs/heads
ln -sf refs/heads/main .git/HEAD
git symbolic-ref HEAD
git show-ref --head
git ls-remote --symref .
git update-ref HEAD HEAD~1
git for-each-ref --format='%(refname) %(HEAD)'
ln -sf refs/heads/none .git/HEAD
git symbolic-ref HEAD
git ls-remote --symref .
git show-ref --verify HEAD
git update-ref HEAD HEAD
git update-ref HEAD side
git symbolic-ref HEAD refs/heads/main
test -h .git/HEAD || cat .git/HEAD

## a push to the branch that a linked HEAD has checked out
# in: files
# exits: 1
history 2
ln -sf refs/heads/main .git/HEAD
stock clone -q . ../copy
stock -C ../copy reset -q --hard HEAD~1
git -C ../copy push -f origin main
git -C ../copy push origin main:other
rm -rf ../copy

## a linked work tree whose HEAD is a symbolic link
# in: files
history 2
stock worktree add -q -b other ../other
ln -sf refs/heads/other .git/worktrees/other/HEAD
git -C ../other symbolic-ref HEAD
git -C ../other update-ref HEAD HEAD~1
git -C ../other for-each-ref --format='%(refname) %(HEAD) %(worktreepath)' | sed 's| /.*/| |'
git symbolic-ref worktrees/other/HEAD
stock worktree remove --force ../other

## symbolic links that name refs, and others
# in: files
# exits: 128 128 1 128 1 128
history 3
git symbolic-ref refs/heads/text refs/heads/main
ln -s refs/heads/text .git/refs/heads/chain
ln -s refs/heads/chain .git/refs/heads/longer
ln -s refs/heads/none .git/refs/heads/dangling
ln -s main .git/refs/heads/through
ln -s ../tags .git/refs/heads/tags
ln -s refs/../main .git/refs/heads/dots
ln -s refs/heads/longer .git/TOP_HEAD
for name in refs/heads/longer refs/heads/dangling refs/heads/through refs/heads/dots TOP_HEAD; do
    git symbolic-ref $name
    git symbolic-ref --no-recurse -q $name
    git show-ref --verify $name
done
git for-each-ref --format='%(refname) %(symref) %(objectname)'
git update-ref refs/heads/longer HEAD~1
git update-ref --no-deref refs/heads/longer HEAD~1
git symbolic-ref -d refs/heads/chain
rm .git/refs/heads/through
git pack-refs --all
ls .git/refs/heads
rm -f .git/refs/heads/dangling .git/refs/heads/dots .git/refs/heads/tags .git/TOP_HEAD

## a hook that refuses
# in: files reftable
# needs git: 2.55
# exits: 128 128
history 2
mkdir -p .git/hooks
printf '#!/bin/sh\nexit 1\n' >.git/hooks/reference-transaction
chmod +x .git/hooks/reference-transaction
git symbolic-ref HEAD refs/heads/other
git symbolic-ref refs/heads/s refs/heads/main
rm .git/hooks/reference-transaction

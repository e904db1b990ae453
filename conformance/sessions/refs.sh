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
# differs: the key is spelled refStorage
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

# Options as git reads them: how they are shortened, taken back and asked for. Usage texts are packrace's own.
# masks: usage

## the beginning of a long option is enough
repository
echo 1 >a
git add --verb --dry a
git add --forc a
tree=$(git write-tree --missing)
commit=$(git commit-tree -m one "$tree")
git update-ref --create --no-der refs/heads/b "$commit"
git for-each-ref --form='%(refname)' --exc=refs/tags
git show-ref --deref --verif refs/heads/b
git symbolic-ref --sho HEAD
git pack-refs --al --no-pr
git hash-object --no-fil --stdin </dev/null
git repack -a --write-b -q -d

## one that begins several options
# exits: 129 129 129 129 129
repository
git repack --write >/dev/null
git for-each-ref --s >/dev/null
git pack-refs --no-a >/dev/null
git show-ref --hea >/dev/null
git hash-object --std >/dev/null </dev/null

## the last word counts
# exits: 1
repository
echo 1 >a
git add --dry-run --no-dry-run --chmod=+x --no-chmod a
git ls-files -s
git stash push --message=x --no-message -q 2>/dev/null
git add --pathspec-from-file=nothing --no-pathspec-from-file a
git for-each-ref --count=1 --no-count
git init -q --bare --no-bare --object-format=sha256 --no-object-format other

## -h shows how a command is used
# exits: 129 129 129 129 129 129 129 129 129 129 129 129 129 129 129 129 129 129 129 129 129 129
repository
for command in add commit-graph commit-tree for-each-ref hash-object index-pack init multi-pack-index pack-objects pack-refs receive-pack reflog refs repack show-ref stash \
    symbolic-ref unpack-objects update-index update-ref upload-pack write-tree; do
    git "$command" -h >out 2>&1
    head -n 1 out | cut -c1-6
done
rm out

## -h of subcommands
# exits: 129 129 129 129 129 129 129 129
repository
for command in 'reflog expire' 'reflog delete' 'stash push' 'stash pop' 'stash drop' 'commit-graph write' 'multi-pack-index write' 'refs migrate'; do
    git $command -h >out 2>&1
    head -n 1 out | cut -c1-6
done
rm out

## -h outside of a repository
# exits: 129 129 129 129
for command in add update-ref for-each-ref repack; do
    git "$command" -h >out 2>&1
    head -n 1 out | cut -c1-6
done
rm out

## -h with an index that is damaged
# exits: 129 129
# state: no-index no-fsck
repository
echo damaged >.git/index
git add -h >/dev/null 2>&1
git update-index -h >/dev/null 2>&1

## options before the command
# exits: 128
history 2 one
mkdir two
echo 1 >two/a
git -C one -C dir1 rev-parse --show-prefix
git --git-dir=one/.git --work-tree=two add a
git --git-dir=one/.git ls-files a
git --git-dir one/.git for-each-ref --format='%(refname)'
git --no-pager -C one for-each-ref --format='%(refname)'
git -c core.logAllRefUpdates=always -C one update-ref refs/odd/a HEAD
git --namespace=x -C one show-ref
git -C nothing show-ref

## options before the command are not shortened
# exits: 129 129
history 1
git --git-di=.git show-ref 2>/dev/null
git --no-pag show-ref 2>/dev/null

## outside of a repository
# exits: 128 128 128 128 128 128 128
git for-each-ref
git update-ref refs/heads/a HEAD
git add .
git repack
git write-tree
git stash list
git pack-refs --all

## in a bare one, where a work tree is needed
# exits: 128 128
git init -q --bare a.git
cd a.git
git add x
git stash

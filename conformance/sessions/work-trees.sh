# Refs of work trees, by names that tell the work tree (git-worktree, "REFS").
#
# Git writes such a ref into reftables under its full name, where nothing finds it again. Sessions that write are for files, and one
# shows what reftables get here.

## refs of other work trees are read
# in: files reftable
# exits: 2 2 2 2 128 128 128 1
history 5
stock worktree add -q -b side ../wt HEAD~2
stock update-ref --create-reflog -m begun refs/bisect/bad HEAD~1
stock -C ../wt update-ref --create-reflog -m there refs/bisect/bad HEAD
stock -C ../wt update-ref refs/worktree/own HEAD~1
for dir in . ../wt; do
    for name in worktrees/wt/HEAD worktrees/wt/refs/bisect/bad worktrees/wt/refs/worktree/own main-worktree/HEAD main-worktree/refs/bisect/bad; do
        git -C "$dir" show-ref --exists "$name"
        git -C "$dir" update-ref refs/heads/found "$name"
        stock -C "$dir" rev-parse found
    done
    git -C "$dir" symbolic-ref worktrees/wt/HEAD
    git -C "$dir" symbolic-ref main-worktree/HEAD
    for name in worktrees/wt/HEAD worktrees/wt/refs/bisect/bad main-worktree/HEAD main-worktree/refs/bisect/bad; do
        git -C "$dir" reflog exists "$name"
        git -C "$dir" reflog show "$name"
    done
done
git show-ref --exists worktrees/none/HEAD
git show-ref --exists worktrees/wt/refs/bisect/none
git show-ref --exists worktrees/wt
git show-ref --exists main-worktree/refs/heads/main
git show-ref --verify worktrees/wt/HEAD
git show-ref --verify main-worktree/HEAD
git reflog exists worktrees/../HEAD
git reflog exists worktrees/none/HEAD
git for-each-ref
git -C ../wt for-each-ref
git reflog list
rm -r ../wt

## objects are named by refs of other work trees
# in: files reftable
# exits: 128 128
# masks: pack-names
# state: no-objects
history 5
stock worktree add -q -b side ../wt HEAD~2
stock update-ref ORIG_HEAD HEAD~4
stock -C ../wt update-ref refs/bisect/bad HEAD~1
for name in main-worktree/HEAD worktrees/wt/HEAD worktrees/wt/HEAD~1 worktrees/wt/refs/bisect/bad ORIG_HEAD main-worktree/ORIG_HEAD; do
    echo "$name"
    echo "$name" | git pack-objects -q --revs --stdout >pack
    stock index-pack pack >/dev/null
    stock verify-pack -v pack.idx | grep -c ' \(commit\|tree\|blob\) '
    rm pack*
done
echo worktrees/none/HEAD | git pack-objects -q --revs --stdout
echo worktrees/../HEAD | git pack-objects -q --revs --stdout
rm -r ../wt

## refs of other work trees get values
# exits: 128 128 128 128
history 5
stock worktree add -q -b side ../wt HEAD~2
git update-ref worktrees/wt/refs/bisect/plain HEAD
git update-ref --create-reflog -m logged worktrees/wt/refs/bisect/log HEAD
git update-ref -m through worktrees/wt/HEAD HEAD~1
git update-ref worktrees/wt/ORIG_HEAD HEAD~3
git -C ../wt update-ref --create-reflog -m main main-worktree/refs/bisect/main HEAD
git -C ../wt update-ref --create-reflog -m own worktrees/wt/refs/worktree/own HEAD
git update-ref --create-reflog -m own main-worktree/refs/worktree/own HEAD
git -C ../wt update-ref -m through main-worktree/HEAD HEAD
stock -C ../wt symbolic-ref HEAD
git update-ref worktrees/wt/refs/bisect/plain HEAD~2 HEAD~4
git update-ref worktrees/wt/refs/bisect/none HEAD~2 HEAD~4
git update-ref worktrees/wt/refs/bisect/plain HEAD~2 0000000000000000000000000000000000000000
git update-ref worktrees/wt/refs/bisect/plain/x HEAD
git -c core.logAllRefUpdates=always update-ref -m always worktrees/wt/refs/rewritten/x HEAD
git update-ref --no-deref -m detached worktrees/wt/HEAD HEAD
stock for-each-ref --include-root-refs
stock -C ../wt for-each-ref --include-root-refs
stock reflog
stock -C ../wt reflog
find .git/worktrees .git/logs .git/refs -type f | sort
for log in bisect/log worktree/own rewritten/x; do
    cat ".git/worktrees/wt/logs/refs/$log"
done
rm -r ../wt

## in reftables they get values, too
# in: reftable
# differs: git writes them under their full names, where they are never found
history 5
stock worktree add -q -b side ../wt HEAD~2
git update-ref --create-reflog -m logged worktrees/wt/refs/bisect/log HEAD
git -C ../wt update-ref --create-reflog -m main main-worktree/refs/bisect/main HEAD
stock rev-parse --verify -q worktrees/wt/refs/bisect/log
stock rev-parse --verify -q refs/bisect/main
stock -C ../wt reflog show refs/bisect/log
stock reflog show refs/bisect/main
rm -r ../wt

## the log of HEAD in reftables, if another work tree's HEAD moves
# in: reftable
# differs: git writes the line of the work tree's HEAD under its full name
history 3
stock worktree add -q -b side ../wt HEAD~2
git update-ref -m through worktrees/wt/HEAD HEAD
stock -C ../wt reflog
rm -r ../wt

## the HEAD of this work tree, by the name of all
# differs: git finds the lock that it holds itself
# exits: 128
history 2
git update-ref -m moved main-worktree/HEAD HEAD~1
stock reflog

## nothing but values
# in: files reftable
# exits: 1 1 1 1 128 1 1 128 128 128 128 128 128 128 128 128 128
history 3
stock worktree add -q -b side ../wt HEAD~2
stock -C ../wt update-ref refs/bisect/bad HEAD
git update-ref -d worktrees/wt/refs/bisect/bad
git update-ref -d worktrees/wt/HEAD
git update-ref -d main-worktree/HEAD
git update-ref -d worktrees/none/HEAD
git update-ref worktrees/wt/refs/bisect/bad 0000000000000000000000000000000000000000
git symbolic-ref worktrees/wt/HEAD refs/heads/side
git symbolic-ref -d worktrees/wt/HEAD
git symbolic-ref -d worktrees/wt/refs/bisect/bad
echo 'delete worktrees/wt/refs/bisect/bad' | git update-ref --stdin
echo 'verify worktrees/wt/refs/bisect/bad HEAD~2' | git update-ref --stdin
printf 'option no-deref\nsymref-update worktrees/wt/HEAD refs/heads/main\n' | git update-ref --stdin
echo 'symref-create worktrees/wt/refs/worktree/s refs/heads/main' | git update-ref --stdin
printf 'option no-deref\nsymref-delete worktrees/wt/HEAD\n' | git update-ref --stdin
printf 'option no-deref\nsymref-verify worktrees/wt/HEAD refs/heads/side\n' | git update-ref --stdin
git update-ref worktrees/../HEAD HEAD
git update-ref worktrees/wt/../../HEAD HEAD
git update-ref worktrees/.wt/HEAD HEAD
stock -C ../wt for-each-ref --include-root-refs
rm -r ../wt

## transactions across work trees
# exits: 128 128 128 128
history 5
stock worktree add -q -b side ../wt HEAD~2
id=$(stock rev-parse HEAD)
old=$(stock rev-parse HEAD~1)
null=0000000000000000000000000000000000000000
printf "create worktrees/wt/refs/bisect/a $id\nupdate refs/heads/n $id\ncreate refs/bisect/a $old\nupdate HEAD $old $id\n" | git update-ref --stdin
printf "update worktrees/wt/refs/bisect/a $old $old\nupdate refs/heads/n $old\n" | git update-ref --stdin
printf "create worktrees/wt/refs/bisect/b $id\ncreate worktrees/wt/refs/bisect/b $id\n" | git update-ref --stdin
printf "create worktrees/wt/refs/bisect/z\000$id\000update worktrees/wt/refs/bisect/a\000$old\000\000create worktrees/other/refs/bisect/c\000$id\000" | git update-ref -z --stdin
printf "update worktrees/../HEAD $id\n" | git update-ref --stdin
printf "update worktrees//HEAD $id\n" | git update-ref --stdin
printf "start\nupdate worktrees/wt/HEAD $id\nprepare\nabort\n" | git update-ref --stdin --no-deref
printf "start\nupdate worktrees/wt/HEAD $id\nprepare\ncommit\n" | git update-ref --stdin --no-deref
stock for-each-ref
stock -C ../wt for-each-ref
stock -C ../wt symbolic-ref -q HEAD || stock -C ../wt rev-parse HEAD
find .git/worktrees -name '*.lock' -o -path '*other*' | sort
rm -r ../wt

## two names of one ref
# exits: 128 128
# masks: words
history 2
stock worktree add -q -b side ../wt
id=$(stock rev-parse HEAD)
printf "create worktrees/wt/refs/bisect/b $id\ncreate refs/bisect/b $id\n" | git -C ../wt update-ref --stdin
printf "create main-worktree/refs/bisect/b $id\ncreate refs/bisect/b $id\n" | git update-ref --stdin
stock for-each-ref
stock -C ../wt for-each-ref
rm -r ../wt

## batches across work trees
# needs git: 2.50
history 3
stock worktree add -q -b side ../wt HEAD~2
id=$(stock rev-parse HEAD)
old=$(stock rev-parse HEAD~1)
printf "update worktrees/wt/refs/bisect/a $old $id\nupdate refs/heads/n $old\nupdate worktrees/wt/refs/bisect/c $id\n" | git update-ref --stdin --batch-updates
stock for-each-ref
stock -C ../wt for-each-ref
rm -r ../wt

## work trees that do not exist
# exits: 255 255
history 2
git update-ref worktrees/none/HEAD HEAD
git update-ref worktrees/none/refs/bisect/x HEAD~1
git show-ref --exists worktrees/none/refs/bisect/x
find .git/worktrees -type f | sort
cat .git/worktrees/none/HEAD
git reflog delete worktrees/none/HEAD@{0}
git reflog delete worktrees/other/HEAD@{0}
rm -r .git/worktrees

## work trees that do not exist, in reftables
# in: reftable
# exits: 128 128 2
history 2
git update-ref worktrees/none/HEAD HEAD
echo 'create worktrees/none/refs/bisect/x HEAD' | git update-ref --stdin
git show-ref --exists worktrees/none/HEAD
ls .git/worktrees

## reflogs of other work trees are changed
history 4
stock worktree add -q -b side ../wt HEAD~2
stock -C ../wt update-ref --create-reflog -m one refs/bisect/bad HEAD~1
stock -C ../wt update-ref -m two refs/bisect/bad HEAD
stock -C ../wt commit -q --allow-empty -m lost
stock -C ../wt commit -q --allow-empty --amend -m kept
git reflog delete worktrees/wt/refs/bisect/bad@{0}
git reflog show worktrees/wt/refs/bisect/bad
git reflog delete --rewrite --updateref worktrees/wt/refs/bisect/bad@{0}
stock -C ../wt reflog show refs/bisect/bad
git reflog expire --expire=never --expire-unreachable=all --verbose --dry-run worktrees/wt/HEAD
git reflog expire --expire=never --expire-unreachable=all --verbose worktrees/wt/HEAD
git -C ../wt reflog expire --expire=all --verbose --dry-run main-worktree/HEAD
stock -C ../wt reflog
git reflog expire --expire=all worktrees/wt/HEAD
cat .git/worktrees/wt/logs/HEAD
rm -r ../wt

## reflogs of other work trees are written and dropped
# needs git: 2.52
# exits: 1 255
history 2
stock worktree add -q -b side ../wt
git reflog write worktrees/wt/refs/bisect/a "$(stock rev-parse HEAD~1)" "$(stock rev-parse HEAD)" hello
git reflog write worktrees/wt/HEAD "$(stock rev-parse HEAD~1)" "$(stock rev-parse HEAD)" hello
stock -C ../wt reflog
cat .git/worktrees/wt/logs/refs/bisect/a
git reflog drop worktrees/wt/HEAD
git reflog exists worktrees/wt/HEAD
git reflog drop worktrees/none/HEAD
find .git/worktrees -path '*logs*' -type f | sort
rm -r ../wt

## git refs, with refs of other work trees
# needs git: 2.56
# exits: 1 2 1 128 1
history 4
stock worktree add -q -b side ../wt HEAD~2
stock branch x
git refs create worktrees/wt/refs/bisect/new HEAD
git refs update worktrees/wt/refs/bisect/new HEAD~1
git refs delete worktrees/wt/refs/bisect/new
git refs exists worktrees/wt/refs/bisect/new
git refs exists worktrees/wt/refs/bisect/q
git refs rename worktrees/wt/refs/bisect/new refs/heads/y
git refs rename worktrees/none/refs/bisect/x refs/heads/y
git refs rename worktrees/wt/HEAD refs/heads/y
git refs rename refs/heads/x worktrees/wt/refs/bisect/x
stock for-each-ref
stock -C ../wt for-each-ref
rm -r ../wt

## names that lead through other folders
# exits: 2 2
# differs: git finds .git/HEAD by the first
history 1
mkdir .git/worktrees
git show-ref --exists worktrees/../HEAD
git show-ref --exists worktrees/../../HEAD
git show-ref --exists main-worktree/../HEAD

## symbolic refs of other work trees lead on from here
history 4
stock worktree add -q -b side ../wt HEAD~2
stock -C ../wt update-ref refs/worktree/own HEAD
stock -C ../wt symbolic-ref HEAD refs/worktree/own
stock update-ref refs/worktree/own HEAD~1
stock symbolic-ref refs/heads/s worktrees/wt/refs/worktree/own
git for-each-ref
git show-ref
git update-ref refs/heads/found worktrees/wt/HEAD
git update-ref -m here worktrees/wt/HEAD HEAD
git update-ref -m through refs/heads/s HEAD
stock -C ../wt for-each-ref
git update-ref -d refs/heads/s
stock -C ../wt for-each-ref
rm -r ../wt

## hooks are told the names of other work trees
# needs git: 2.54
history 3
stock worktree add -q -b side ../wt HEAD~2
mkdir -p .git/hooks
printf '#!/bin/sh\nsed "s/^/$1 /"\n' >.git/hooks/reference-transaction
chmod +x .git/hooks/reference-transaction
git update-ref worktrees/wt/refs/bisect/x HEAD
git update-ref main-worktree/refs/bisect/x HEAD
git update-ref --no-deref worktrees/wt/HEAD HEAD
git -C ../wt update-ref worktrees/wt/refs/bisect/y HEAD
git -C ../wt update-ref main-worktree/HEAD HEAD~1
rm -r ../wt .git/hooks/reference-transaction

## clients see no refs of work trees by such names
# exits: 1 1
# masks: order
history 3
stock worktree add -q -b side ../wt HEAD~2
stock -C ../wt update-ref refs/bisect/bad HEAD
git ls-remote . 'worktrees/*' 'main-worktree/*'
git push -q . HEAD~1:worktrees/wt/refs/bisect/bad
git push -q . :worktrees/wt/refs/bisect/bad
rm -r ../wt

## symbolic refs that lead to another work tree
# in: files reftable
# needs git: 2.55
# state: no-files
history 2
stock worktree add -q tree -b topic
stock symbolic-ref refs/heads/there worktrees/tree/HEAD
stock -C tree update-ref refs/bisect/bad HEAD~1
stock symbolic-ref refs/heads/bad worktrees/tree/refs/bisect/bad
stock symbolic-ref refs/heads/nowhere worktrees/none/HEAD
git for-each-ref --format='%(refname) %(symref) %(objectname)'
git show-ref
git refs list --include-root-refs
git ls-remote .
git -C tree for-each-ref
git -C tree show-ref --verify refs/heads/there
stock worktree remove tree
git show-ref

## an index without a name
# state: no-objects no-fsck
# needs git: 2.47
# exits: 128 128 128 128 1 1
history 2
echo new >new
GIT_INDEX_FILE= git write-tree
GIT_INDEX_FILE= git write-tree --prefix=none
GIT_INDEX_FILE= git add -n new
GIT_INDEX_FILE= git add -nv new
GIT_INDEX_FILE= git add -n none
GIT_INDEX_FILE= git add new
GIT_INDEX_FILE= git update-index --add new
GIT_INDEX_FILE= git update-index --refresh
GIT_INDEX_FILE= git stash
GIT_INDEX_FILE= git stash -u
git status --short

# Hooks that the configuration sets (git-hook, git-config "hook").
# needs git: 2.55

## configured hooks run in the order of the configuration, before the file
# in: files reftable
history 2
mkdir deep
printf '#!/bin/sh\necho "$0 $*"\n' >no-shell
printf '#!/bin/sh\necho "file $0 $*"; cat\n' >.git/hooks/reference-transaction
chmod +x no-shell .git/hooks/reference-transaction
stock config hook.b.event reference-transaction
stock config hook.b.command 'echo "b $0 $#"; cat; :'
stock config hook.a.event reference-transaction
stock config hook.a.command 'test -d .git && echo a'
git update-ref refs/heads/one main
cd deep
git -c hook.b.event=reference-transaction -c hook.c.event=reference-transaction -c hook.c.command=./no-shell \
    -c hook.d.event=pre-commit -c hook.d.command=false update-ref refs/heads/other main
cd ..
git -c hook.c.event=reference-transaction -c hook.c.command=./no-shell -c core.hooksPath=/dev/null \
    update-ref refs/heads/two main

## a hook without events, or that is disabled, does not run
history 2
set_up() { stock config hook.a.event reference-transaction; stock config hook.a.command 'echo a'; }
set_up
git -c hook.a.event= update-ref refs/heads/one main
git -c hook.a.event= -c hook.a.event=reference-transaction update-ref refs/heads/two main
git -c hook.a.enabled=false update-ref refs/heads/three main
git -c hook.a.enabled=false -c hook.a.enabled=bad update-ref refs/heads/four main
git -c hook.a.enabled=false -c hook.a.enabled=yes update-ref refs/heads/five main
git -c hook.reference-transaction.enabled=false update-ref refs/heads/six main
git -c hook.a.command='echo another' update-ref refs/heads/seven main
stock config --unset hook.a.command
git -c hook.a.enabled=false update-ref refs/heads/eight main

## settings of hooks that are refused
# exits: 128 128 128 128 128 128
history 2
git -c hook.a.event=reference-transaction update-ref refs/heads/one main
git -c hook.a.event=pre-commit update-ref refs/heads/one main
git -c hook.pre-commit.event=update -c hook.pre-commit.command=true update-ref refs/heads/one main
git -c hook.a.event=update -c hook.a.command update-ref refs/heads/one main
git -c hook.a.event update-ref refs/heads/one main
printf '[hook "a"]\n\tcommand = true\n\tevent\n' >>.git/config
git update-ref refs/heads/one main
stock config --remove-section hook.a
git -c hook.foo.event=foo -c hook.foo.command=true update-ref refs/heads/two main

## configured hooks that fail
# exits: 128 128 128 128 128
history 2
try() {
    git -c hook.a.event=reference-transaction -c hook.a.command="$1" \
        -c hook.b.event=reference-transaction -c hook.b.command='echo b' update-ref refs/heads/one main
}
try 'echo a; exit 1;'
try 'kill -9 $$;'
try no-such-program
try /no/such/program
printf '#!/bin/sh\nkill -9 $$\n' >.git/hooks/reference-transaction
chmod +x .git/hooks/reference-transaction
try 'echo a'

## configured hooks of a push
# exits: 1 1 1
history 3
stock init -q --bare t.git
set_up() { stock -C t.git config "$@"; }
for event in pre-receive update post-receive post-update
do
    printf '#!/bin/sh\necho "file $0 $*"; cat\n' >t.git/hooks/$event
    chmod +x t.git/hooks/$event
    set_up --add hook.a.event $event
    set_up --add hook.b.event $event
done
set_up hook.a.command 'cat; echo "a $GIT_DIR"'
set_up hook.b.command './b'
printf '#!/bin/sh\necho "b $*"; cat\n' >t.git/b
chmod +x t.git/b
git push t.git main HEAD~1:refs/heads/side
printf '#!/bin/sh\necho "b $*"; test $# != 3 -o "$1" != refs/heads/no\n' >t.git/b
git push t.git main:refs/heads/no main:refs/heads/yes
set_up hook.b.command 'echo "b says no"; exit 1;'
git push t.git main:refs/heads/other
set_up hook.b.command 'kill -9 $$;'
git push t.git main:refs/heads/other

## configured hooks of a checkout, of the index and of the work tree
# differs: clients see what push-to-checkout prints
# exits: 1 1
history 3
stock config receive.denyCurrentBranch updateInstead
stock config hook.a.event push-to-checkout
stock config --add hook.a.event post-index-change
stock config hook.a.command 'echo a'
echo more >more
git add more
git update-index --force-write-index
stock reset -q --hard
stock clone -q . copy
(cd copy && commit new)
stock config hook.a.command 'test -d "$GIT_WORK_TREE/.git" && echo a; exit 1;'
git -C copy push .. main
stock config --replace-all hook.a.event proc-receive
stock config receive.procReceiveRefs refs/for
git -C copy push .. main:refs/for/main

## git in a hook reaches another repository
# needs git: 2.47
history 2
stock init -q other
(cd other && commit other)
stock worktree add -q linked 2>/dev/null
mkdir deep
printf '#!/bin/sh\necho "$1 ${GIT_DIR-found}"\ngit -C other log -1 --format=%%s\n' >.git/hooks/post-index-change
chmod +x .git/hooks/post-index-change
git update-index --force-write-index
git -C deep update-index --force-write-index
echo more >deep/more
(cd deep && git add more)
printf '#!/bin/sh\necho "$1 ${GIT_DIR+given}"\n' >.git/hooks/post-index-change
GIT_DIR=.git git update-index --force-write-index
git --git-dir=.git update-index --force-write-index
git --work-tree=. update-index --force-write-index
git -C linked update-index --force-write-index

## variables of hooks
# in: files reftable
history 2
mkdir deep
printf '#!/bin/sh\necho "${GIT_PREFIX-none} ${GIT_WORK_TREE-none} ${GIT_DIR+set}"\n' >.git/hooks/post-index-change
chmod +x .git/hooks/post-index-change
top=$PWD
try() { echo "$1" >"$top/file"; shift; git "$@" add :/file; }
try 1
git --work-tree=. update-index --force-write-index
cd deep
try 2
try 3 -C ..
try 4 -c a.b=c --git-dir=../.git --work-tree=..
cd ..
echo 5 >file
git -C deep update-ref refs/heads/one main
git -C deep add :/file
stock worktree add -q tree -b other
cd tree
echo 6 >file
git add file
cd ..

## numbers of jobs that are none
history 1
for setting in hook.jobs= hook.jobs=1k hook.jobs=-1 hook.jobs=-2 hook.jobs=0 hook.jobs=2x hook.jobs=99999999999 \
    hook.update.jobs=0 hook.update.jobs=x hook.a.b.jobs=-3 hook.jobs hook.a.parallel=junk hook.a.parallel=no; do
    git -c "$setting" update-ref refs/heads/a HEAD
done
git -c hook.jobs=0 -c hook.a.jobs=x update-ref refs/heads/b HEAD

# Pushes into a repository on this machine: receive-pack takes them.
# masks: progress

## new, moved and deleted
# in: files reftable sha1 sha256
history 3
git init -q --bare to.git
git push to.git main
commit one
git push to.git main main:refs/heads/other
git push to.git --delete other
git push -q to.git main:refs/heads/third

## everything, and mirrored
history 3
stock branch a HEAD~1
stock tag -a -m note v1
git init -q --bare to.git
git push to.git --all
git push to.git --tags
stock branch -D a >/dev/null
git push --mirror to.git

## not forward
# exits: 1
history 3
git init -q --bare to.git
git push -q to.git main
stock reset -q --hard HEAD~1
commit other
git push to.git main
git push --force to.git main

## with a lease
# exits: 1
history 3
git init -q --bare to.git
git push -q to.git main
stock reset -q --hard HEAD~1
commit other
git push --force-with-lease=main:HEAD~1 to.git main
git push --force-with-lease=main:"$(stock rev-parse main@{2})" to.git main

## what the server denies
# exits: 1 1
history 3
git init -q --bare to.git
git push -q to.git main
stock -C to.git config receive.denyNonFastForwards true
stock -C to.git config receive.denyDeletes true
git push -q --force to.git HEAD~1:main
git push -q to.git :main

## the branch that is checked out
# exits: 1 1
history 2
stock clone -q . to
commit one
git push to main
git push to :main
stock -C to config receive.denyCurrentBranch ignore
git push to main

## the branch that is checked out, brought up
history 2
stock clone -q . to
stock -C to config receive.denyCurrentBranch updateInstead
commit one
git push to main
ls to

## all or nothing
# exits: 1
history 3
git init -q --bare to.git
git push -q to.git main HEAD~1:refs/heads/other
stock -C to.git config receive.denyNonFastForwards true
commit one
git push --atomic --force to.git main HEAD~3:refs/heads/other

## hooks
# exits: 1
history 2
git init -q --bare to.git
for hook in pre-receive update post-receive post-update; do
    printf '#!/bin/sh\necho "%s $*"\n[ "%s" = pre-receive ] || [ "%s" = post-receive ] && cat\nexit 0\n' "$hook" "$hook" "$hook" >to.git/hooks/"$hook"
    chmod +x to.git/hooks/"$hook"
done
git push to.git main 2>&1 | sed 's/ *$//'
printf '#!/bin/sh\necho no\nexit 1\n' >to.git/hooks/update
git push to.git main:refs/heads/other

## a hook that forbids all
# exits: 1
history 2
git init -q --bare to.git
printf '#!/bin/sh\necho "not today" >&2\nexit 1\n' >to.git/hooks/pre-receive
chmod +x to.git/hooks/pre-receive
git push to.git main HEAD~1:refs/heads/other

## options for hooks
# exits: 128
history 2
git init -q --bare to.git
git push -o a=b to.git main
stock -C to.git config receive.advertisePushOptions true
printf '#!/bin/sh\nenv | grep ^GIT_PUSH_OPTION | sort\n' >to.git/hooks/pre-receive
chmod +x to.git/hooks/pre-receive
git push -o a=b -o c to.git main

## names that are no refs
# exits: 1 128
history 1
git init -q --bare to.git
git push to.git main:refs/heads
git push to.git main:refs/heads/a..b
git push to.git main:main

## a ref where a folder is
# differs: the words are those of git 2.55
# exits: 1
history 1
git init -q --bare to.git
git push -q to.git main:refs/heads/a/b
git push to.git main:refs/heads/a

## objects that are no good
# exits: 1
history 1
git init -q --bare to.git
stock -C to.git config receive.fsckObjects true
bad=$(printf 'tree %s\nauthor a <a> 1 +0000\n\nx\n' "$(stock rev-parse HEAD^{tree})" | stock hash-object -t commit --literally -w --stdin)
git push to.git "$bad":refs/heads/bad

## a server that takes no thin pack
history 3
seq 3000 >big
stock add big
stock commit -qm big
stock init -q --bare to.git
stock push -q to.git main
echo more >>big
stock commit -qam more
printf '#!/bin/sh\nexec git -c "receive.unpackLimit=$LIMIT" receive-pack --reject-thin-pack-for-testing "$@"\n' >strict
chmod +x strict
export LIMIT=1
stock push -q --receive-pack=./strict to.git main:one
stock push -q --no-thin --receive-pack=./strict to.git main:one
commit new
export LIMIT=100
stock push -q --receive-pack=./strict to.git main:two
rm strict

## a server that is full
# differs: the limit is told, and the log of the server hears of it
# exits: 1
history 3
git init -q --bare to.git
stock -C to.git config receive.maxInputSize 100
git push to.git main

## refs that are hidden
# exits: 1
history 2
git init -q --bare to.git
stock -C to.git config receive.hideRefs refs/heads/secret
git push to.git main:refs/heads/secret/one
git push to.git main

## shallow
# exits: 1
history 5 from
git init -q --bare to.git
git clone -q --depth=2 "file://$PWD/from" shallow
git -C shallow push "file://$PWD/to.git" main
stock -C to.git config receive.shallowUpdate true
git -C shallow push "file://$PWD/to.git" main
cat to.git/shallow

## hooks of a shallow push know where history ends
# masks: progress
history 5 from
git init -q --bare to.git
stock -C to.git config receive.shallowUpdate true
git clone -q --depth=2 "file://$PWD/from" shallow
printf '#!/bin/sh\necho "$(basename "$0") ${GIT_SHALLOW_FILE+is told}"\n[ -z "$GIT_SHALLOW_FILE" ] || sort "$GIT_SHALLOW_FILE"\n' >hook
printf 'case $0 in\n*/pre-receive|*/post-receive) while read old new ref; do git log --oneline "$new"; done ;;\n*/update) git log --oneline "$3" ;;\nesac\n' >>hook
for hook in pre-receive update post-receive post-update; do
    cp hook to.git/hooks/$hook
    chmod +x to.git/hooks/$hook
done
printf '#!/bin/sh\n[ "$1" = prepared ] || exit 0\necho "transaction ${GIT_SHALLOW_FILE+is told}" >>../told\n' >to.git/hooks/reference-transaction
chmod +x to.git/hooks/reference-transaction
git -C shallow push "file://$PWD/to.git" main 2>&1 | sed 's/ *$//; /unable to read/d'
cat to.git/shallow
stock -C shallow commit -q --allow-empty -m more
git -C shallow push "file://$PWD/to.git" main 2>&1 | sed 's/ *$//'
stock init -q --bare whole.git
cp to.git/hooks/pre-receive whole.git/hooks/
git -C from push ../whole.git main 2>&1 | sed 's/ *$//'
cat told
find to.git whole.git -maxdepth 1 -name 'shallow*'
rm -r to.git/hooks whole.git/hooks

## unpacked or kept, by number
# state: loose packs
# masks: progress pack-names
history 3
git init -q --bare to.git
stock -C to.git config receive.unpackLimit 1
git push -q to.git main

## from a clone with alternates
history 4
stock clone -q --bare . to.git
stock clone -q --shared to.git work2
cd work2
commit one
git push -q origin main

## only tried
# exits: 1
history 2
git init -q --bare to.git
git push -n to.git main
git push --porcelain to.git main
git push --porcelain to.git main
git push --porcelain to.git :main :nothing

## receive-pack by itself
# exits: 128 129 129
# masks: usage
history 1
git receive-pack nothing </dev/null
git receive-pack </dev/null
git receive-pack --bogus . </dev/null

## receive-pack advertises
history 2
git receive-pack --http-backend-info-refs . | tr '\0' '@' | sed 's/^\(0000\)*....//;s/agent=[^ ]*//;s/session-id=[^ ]*//'

## a quarantine that a hook looks into
# state: no-work
history 2
git init -q --bare to.git
printf '#!/bin/sh\nwhile read old new ref; do git log --oneline "$new"; done\ngit update-ref refs/heads/x HEAD 2>/dev/null || echo not now\n' >to.git/hooks/pre-receive
chmod +x to.git/hooks/pre-receive
git push to.git main 2>&1 | sed 's/ *$//'

## packets of a push are traced
history 2
git init -q --bare to.git
GIT_TRACE_BARE=1 GIT_TRACE_PACKET="$PWD/trace" git push -q to.git main
grep 'receive-pack[<>]' trace | sed 's/\\0.*//'
rm trace

## a hook that changes refs while objects are in quarantine
# exits: 1
history 2
git init -q --bare to.git
printf '#!/bin/sh\nread old new name\ngit update-ref refs/heads/other $new\ngit symbolic-ref refs/heads/name refs/heads/other\nexit 1\n' >to.git/hooks/pre-receive
chmod +x to.git/hooks/pre-receive
git push to.git main

## bad objects that a list in the repository names
# exits: 1
history 1
git init -q --bare to.git
stock -C to.git config receive.fsckObjects true
bad=$(printf 'tree %s\nauthor a <a> 1 +0000\n\nx\n' "$(stock rev-parse HEAD^{tree})" | stock hash-object -t commit --literally -w --stdin)
echo "$bad" >to.git/known
git push -q to.git "$bad":refs/heads/bad 2>/dev/null
stock -C to.git config receive.fsck.skipList known
git push -q to.git "$bad":refs/heads/bad

## an atomic push of something that no branch may have
# in: files reftable
# needs git: 2.55
# exits: 1 1
# masks: progress
history 2
stock init -q --bare to.git
git push --atomic to.git main HEAD:refs/heads/a HEAD^{tree}:refs/heads/b HEAD:refs/heads/c
stock -C to.git for-each-ref
git push to.git main HEAD:refs/heads/a HEAD^{tree}:refs/heads/b HEAD:refs/heads/c
stock -C to.git for-each-ref

## a hook proc-receive that ends with an error
# exits: 1
history 2
for code in 0 3; do
    stock init -q --bare server$code
    stock -C server$code config receive.procReceiveRefs refs/for
    {
        echo '#!/bin/sh'
        echo 'cat >/dev/null &'
        echo "printf '000eversion=1\\n0000'; sleep .3; printf '0016ok refs/for/a/main0000'; exit $code"
    } >server$code/hooks/proc-receive
    chmod +x server$code/hooks/proc-receive
    git push server$code main:refs/for/a/main main:one
    git push --atomic server$code main:refs/for/a/main main:two
    echo $?
    git -C server$code for-each-ref
done
rm -rf server0 server3

## hooks that cannot be started
# needs git: 2.55
# masks: progress order
# exits: 1 1 1 1
history 2
for name in pre-receive update post-receive post-update; do
    for kind in directory program; do
        stock init -q --bare to.git
        mkdir -p to.git/hooks
        rm -rf to.git/hooks/$name
        case $kind in
        directory) mkdir to.git/hooks/$name ;;
        *) printf '#!/nowhere/sh\n' >to.git/hooks/$name && chmod +x to.git/hooks/$name ;;
        esac
        git push -q to.git main
        stock -C to.git for-each-ref
        rm -rf to.git
    done
done

## a hook of this repository that cannot be started
# needs git: 2.55
history 1
mkdir -p .git/hooks
printf '#!/nowhere/sh\n' >.git/hooks/post-index-change
chmod +x .git/hooks/post-index-change
echo more >dir1/file1
git update-index dir1/file1
echo $?

## an atomic push of which the hook proc-receive refuses something
# exits: 1 1 1
history 2
hook() {
    proc_receive to.git "$1"
    git push --atomic to.git main:refs/for/a main:refs/for/b main:one
    stock -C to.git for-each-ref
    rm -rf to.git
}
hook "pkt 'ng refs/for/a no'; pkt 'ok refs/for/b'"
hook "pkt 'ok refs/for/a'"
hook "pkt 'ng refs/for/a no'; pkt 'ng refs/for/b'"
hook "pkt 'ok refs/for/a'; pkt 'ok refs/for/b'"

## several errors in the answer of the hook proc-receive
# exits: 1
history 2
proc_receive to.git "pkt 'ok refs/for/x'; pkt 'ok refs/for/y'; pkt 'option a b'"
git push to.git main:refs/for/a main:one
rm -rf to.git

## a push with a bad .gitmodules, as unpack-objects and index-pack refuse it
# exits: 1 1
history 1
stock init -q --bare to.git
stock -C to.git config receive.fsckObjects true
printf '[submodule "a"]\n\tpath = a\n\turl = -x\n' >.gitmodules
stock add .gitmodules
stock commit -q -m modules
git push to.git main
stock -C to.git config receive.unpackLimit 1
git push to.git main

## settings that receive-pack refuses before it says anything
# exits: 128 128 128 128
# needs git: 2.55
history 1
for setting in core.abbrev=x user.name receive.hideRefs transfer.hideRefs; do
    printf 0000 | git -c $setting receive-pack .
done

## pushed without thin packs
repository from; stock init -q --bare to.git
cd from
for number in 1 2 3; do
    seq 1 300 >big; echo $number >>big; stock add big; tick; stock commit -q -m $number
    git push -q --no-thin ../to.git main
    git push -q --no-thin --thin ../to.git main:refs/heads/other
done
stock -C ../to.git for-each-ref

## refs of one level are pushed
# exits: 1 128 1
history 1 from
stock init -q --bare to.git
for ref in refs/one one HEAD refs/ refs/heads; do
    git -C from push -q ../to.git HEAD:$ref 2>&1 | sed 's/^To.*//'
done
stock -C to.git for-each-ref

## a list of bad objects may have comments
history 1
git init -q --bare to.git
stock -C to.git config receive.fsckObjects true
bad=$(printf 'tree %s\nauthor a <a> 1 +0000\n\nx\n' "$(stock rev-parse HEAD^{tree})" | stock hash-object -t commit --literally -w --stdin)
printf '# known\n\n  \n%s # one\n' "$bad" >to.git/known
stock -C to.git config receive.fsck.skipList known
git push -q to.git "$bad":refs/heads/one
printf '%s\r\n' "$bad" >to.git/known
git push -q to.git "$bad":refs/heads/two

## refs that lead to nothing are deleted
# in: files reftable
# needs git: 2.55
history 2 src
stock init -q --bare --ref-format=$(stock -C src rev-parse --show-ref-format) to.git
printf '#!/bin/sh\necho post-receive; cat\n' >to.git/hooks/post-receive
chmod +x to.git/hooks/post-receive
stock -C to.git symbolic-ref refs/heads/sym refs/heads/no
git -C src push ../to.git :refs/heads/sym
stock -C to.git symbolic-ref refs/heads/sym
git -C src push ../to.git :refs/heads/none main:refs/heads/new
git -C src push --atomic ../to.git :refs/heads/none :refs/heads/new

## broken refs are not deleted
# exits: 1 1 1 1 1
# needs git: 2.55
history 2 src
stock init -q --bare to.git
echo junk >to.git/refs/heads/junk
git -C src push ../to.git :refs/heads/junk
cat to.git/refs/heads/junk
: >to.git/refs/heads/empty
git -C src push ../to.git :refs/heads/empty
ln -s loop to.git/refs/heads/loop
git -C src push ../to.git :refs/heads/loop
for target in refs/heads/junk refs/heads/..x; do
    echo "ref: $target" >to.git/refs/heads/sym
    git -C src push ../to.git :refs/heads/sym
done
rm to.git/refs/heads/*

## lists of bad objects that cannot be read
# exits: 1 1 1 1 1 1 1 1
# needs git: 2.55
history 1 src
stock init -q --bare to.git
stock -C to.git config receive.fsckObjects true
: >to.git/list
echo abc >to.git/wrong
for limit in 100 1; do
    stock -C to.git config receive.unpackLimit $limit
    for list in nothere wrong '' list,list2; do
        stock -C to.git config receive.fsck.skipList "$list"
        git -C src push ../to.git main 2>&1
    done
done
stock -C to.git config receive.fsck.skipList ':(optional)nothere'
git -C src push ../to.git main

## an option of what the hook proc-receive refuses
# exits: 1 1
history 2 src
proc_receive pr 'pkt "ng refs/for/main no"; pkt "option refname refs/heads/a"'
git -C src push ../pr main:refs/for/main
proc_receive pr 'pkt "ng refs/for/main no"; pkt "option fall-through"; pkt "ok refs/for/b"'
git -C src push ../pr main:refs/for/main main:refs/for/b main:refs/heads/x
stock -C pr for-each-ref
rm -rf pr

## settings of a server that receives
# exits: 128 128
# needs git: 2.55
history 1 src
stock init -q --bare to.git
for setting in 'receive.autogc x' 'gpg.minTrustLevel foo' 'receive.certNonceSlop x'; do
    stock -C to.git config $setting
    git -C src push ../to.git main
    stock -C to.git config --unset ${setting% *}
done
stock -C to.git config gpg.minTrustLevel FULLY
git -C src push ../to.git main

## a client is told what maintenance after its push says
# needs git: 2.55
history 1 src
stock init -q --bare to.git
for setting in 'maintenance.auto true' 'gc.auto 1' 'gc.autoPackLimit 1' 'transfer.unpackLimit 1'; do
    stock -C to.git config $setting
done
for setting in 'maintenance.autoDetach false' 'maintenance.autoDetach true'; do
    stock -C to.git config $setting
    for time in nonsense false tomorrow; do
        stock -C to.git config gc.pruneExpire $time
        (cd src && commit $time)
        git -C src push ../to.git main
    done
done
stock -C to.git config receive.autogc false
(cd src && commit last)
git -C src push ../to.git main

## index-pack of settings that make no sense, outside of a repository
# exits: 128 128 128 128 128 128
# needs git: 2.55
mkdir plain; cd plain
for option in --fsck-objects=foo=warn --fsck-objects=missingEmail=nope --fsck-objects=skipList=nothere --index-version=9 --object-format=md5 -v; do
    git index-pack --stdin $option </dev/null
done

## what is traced of a push from a shallow repository
# needs git: 2.55
# exits: 1
history 6 src
stock init -q --bare srv
stock -C src push -q ../srv main
stock clone -q --depth 2 "file://$PWD/srv" sh
cd sh
commit new
traced() {
    echo "$*"
    GIT_TRACE_BARE=1 GIT_TRACE_SHALLOW=$PWD/lines git "$@" 2>/dev/null
    cat lines
    rm -f lines
}
traced push ../srv HEAD:refs/heads/new
stock -C ../srv config receive.shallowUpdate true
traced push ../srv HEAD:refs/heads/new2
stock init -q --bare ../empty
traced push ../empty HEAD:refs/heads/new
stock -C ../empty config receive.shallowUpdate true
traced push ../empty HEAD:refs/heads/new
traced push ../empty HEAD:refs/heads/new2
traced push ../empty :new2
cd ..
rm -rf src srv sh empty

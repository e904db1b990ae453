# Clones and fetches from a repository on this machine: upload-pack answers, and git's own children are packrace's too.
# masks: progress

## clone, bare and not
# in: files reftable sha1 sha256
history 5 from
stock -C from tag -a -m note v1
git clone -q from to
git clone -q --bare from bare.git
git clone -q --mirror from mirror.git
git -C to log --oneline

## with --no-local, as over a wire
history 5 from
git clone --no-local from to
git -C to rev-list --objects --all --count

## in each version of the protocol
history 5 from
stock -C from branch other HEAD~2
for version in 0 1 2; do
    git -c protocol.version="$version" clone -q --no-local from "to$version"
    git -c protocol.version="$version" ls-remote from
done

## fetched after a change
history 3 from
git clone -q --no-local from to
(cd from && commit one && commit two)
git -C to fetch
git -C to fetch -v
git -C to pull -q
git -C to log --oneline -1

## with tags
history 3 from
git clone -q --no-local from to
(cd from && commit one && stock tag -a -m note v1 && stock tag light HEAD~1)
git -C to fetch
(cd from && stock tag -a -m note v2 HEAD~2)
git -C to fetch
git -C to fetch --tags

## shallow
# state: no-logs
history 10 from
git clone -q --depth=3 "file://$PWD/from" to
git -C to rev-list --count HEAD
cat to/.git/shallow
git -C to fetch -q --deepen=2
cat to/.git/shallow
git -C to fetch -q --unshallow
git -C to rev-list --count HEAD

## shallow by date and by ref
# state: no-logs
history 10 from
stock -C from tag old HEAD~6
git clone -q --shallow-since='2005-04-07 15:20:00 -0700' "file://$PWD/from" since
cat since/.git/shallow
git clone -q --shallow-exclude=old "file://$PWD/from" exclude
cat exclude/.git/shallow

## shallow by a date that nothing is behind
# masks: progress order
# differs: the reason comes to the client, where git hangs up
# exits: 128
history 3 from
git clone -q --shallow-since=2020-01-01 "file://$PWD/from" to

## shallow without a ref that is there
# masks: progress order
# differs: the reason comes to the client, where git hangs up
# exits: 128
history 3 from
git clone -q --shallow-exclude=nothing "file://$PWD/from" to

## one branch
# state: no-logs
history 6 from
stock -C from branch other HEAD~3
git clone -q --single-branch --branch other "file://$PWD/from" to
git -C to for-each-ref
git clone -q --depth=1 --no-single-branch "file://$PWD/from" shallow
git -C shallow for-each-ref

## a branch that is not there
# exits: 128 128
history 1 from
git clone -q --branch nothing from to
git clone -q nothing to

## partial
# state: no-logs
partial 6 from
git clone -q --bare --filter=blob:none "file://$PWD/from" to.git
git -C to.git rev-list --objects --missing=print --all | grep -c '^?'
git -C to.git cat-file -p HEAD:dir1/file1 | head -1
git -C to.git rev-list --objects --missing=print --all | grep -c '^?'

## pushed commits come back below another one, in a partial clone
# needs git: 2.48
# state: packs no-logs
partial 3 from
stock clone -q --filter=blob:none "file://$PWD/from" to
cd to
commit mine
mkdir folder
commit folder/mine
stock push -q origin HEAD:refs/heads/topic
commit unpushed
cd ../from
stock checkout -q topic
commit theirs
cd ../to
git fetch -q origin topic
git rev-list --objects --all --exclude-promisor-objects
stock reset -q --hard FETCH_HEAD
stock reflog expire --expire=now --all
stock gc -q --prune=now
git rev-list --objects --missing=print HEAD

## the same with packs, a tag of a blob and a squashed branch
# needs git: 2.48
# state: no-logs
partial 3 from
stock clone -q --filter=blob:none "file://$PWD/from" to
cd to
mkdir folder
commit folder/mine
commit folder/more
stock repack -q -d
echo blob | stock hash-object -w --stdin >../blob
stock tag -a -m blob blob "$(cat ../blob)"
stock push -q origin HEAD:refs/heads/topic blob
stock update-ref -d refs/tags/blob
cd ../from
commit theirs
stock merge -q --squash topic >/dev/null
stock commit -q -m squashed
stock tag -a -m other other "$(cat ../blob)"
stock update-ref -d refs/tags/blob
cd ../to
git fetch -q --tags origin main
git rev-list --objects --all --exclude-promisor-objects
stock reset -q --hard FETCH_HEAD
stock reflog expire --expire=now --all
stock gc -q --prune=now
git rev-list --objects --missing=print --all

## index-pack for a promisor
# needs git: 2.48
# exits: 128 128 128
history 2
git index-pack --promisor some.pack
git index-pack --promisor=why --stdin some.pack </dev/null
git -C / index-pack --promisor --stdin </dev/null

## a partial clone pushes what it lacks
# masks: progress
# state: packs no-logs
partial 3 from
stock clone -q --bare --filter=blob:none --single-branch --no-tags "file://$PWD/from" to.git
cd from
commit one
commit two
cd ..
stock -C to.git fetch -q --filter=blob:none "file://$PWD/from" main:refs/heads/later
git -C to.git push -q origin later:refs/heads/copy
stock -C to.git rev-list --objects --missing=print --all | grep '^?'

## lists of objects that a partial clone lacks
# state: no-logs
partial 3 from
stock clone -q --bare --filter=blob:none "file://$PWD/from" to.git
cd to.git
stock -C ../from rev-list --objects HEAD | cut -d' ' -f1 >../list
git pack-objects -q --stdout <../list | git index-pack --stdin >/dev/null
stock rev-list --objects --missing=print --all | grep '^?'

## trees that a partial clone lacks
# state: no-logs
partial 3 from
stock clone -q --bare --filter=tree:0 "file://$PWD/from" to.git
cd to.git
echo HEAD | git pack-objects -q --revs some >/dev/null
stock show-index <$(ls some-*.idx) | cut -d' ' -f2 | sort
rm some-*
echo HEAD | git pack-objects -q --revs --filter=blob:none --stdout | wc -c >/dev/null

## promisor remotes that have nothing
# masks: order
# exits: 128 128 128
# state: no-logs no-fsck
partial 3 from
stock clone -q --bare --filter=blob:none "file://$PWD/from" to.git
cd to.git
echo HEAD | GIT_NO_LAZY_FETCH=1 git pack-objects -q --revs --stdout | wc -c
echo HEAD | git --no-lazy-fetch pack-objects -q --revs --stdout | wc -c
git config remote.origin.url ../elsewhere
echo HEAD | git pack-objects -q --revs --stdout | wc -c
git config remote.second.url "file://$OLDPWD/from"
git config remote.second.promisor true
echo HEAD | git pack-objects -q --revs --stdout 2>/dev/null | git index-pack --stdin | cut -c1-5

## deltas of objects that a partial clone lacks
# state: no-logs
partial 3 from
seq 1 300 >from/large
stock -C from add large
stock -C from commit -q -m large
stock clone -q --bare --filter=blob:none "file://$PWD/from" to.git
cd from
seq 1 310 >large
stock commit -q -a -m larger
echo "HEAD:large
^HEAD~1" | stock pack-objects -q --revs --stdout --thin >../thin.pack
cd ../to.git
git index-pack --stdin --fix-thin <../thin.pack | cut -c1-5
cd ..
stock clone -q --bare --filter=blob:none "file://$PWD/from" other.git
cd other.git
stock pack-objects -q some <../thin.pack 2>/dev/null
git unpack-objects -q <../thin.pack
stock rev-list --objects --missing=print --all | grep '^?'

## a server that is a partial clone and fetches nothing
# masks: words
# exits: 128 128
# state: no-logs no-fsck
partial 3 from
stock clone -q --bare --filter=blob:none "file://$PWD/from" server.git
git clone -q --bare "file://$PWD/server.git" to.git
GIT_NO_LAZY_FETCH=1 git clone -q --bare "file://$PWD/server.git" to.git

## a server that is a partial clone and fetches
# masks: progress order
# state: no-logs no-fsck
partial 3 from
stock clone -q --bare --filter=blob:none "file://$PWD/from" server.git
stock -C server.git config remote.origin.url ../from
stock -C server.git rev-list --objects --missing=print --all | grep -c '^?'
GIT_NO_LAZY_FETCH=0 git clone -q --bare "file://$PWD/server.git" to.git
stock -C server.git rev-list --objects --missing=print --all | grep -c '^?'
stock -C to.git rev-list --objects --all | wc -l

## refs to objects that a partial clone lacks
# state: no-logs
partial 3 from
stock clone -q --bare --filter=tree:0 "file://$PWD/from" to.git
cd to.git
tree=$(stock -C ../from rev-parse "HEAD~1^{tree}")
git update-ref refs/tags/tree "$tree"
git update-ref refs/tags/blob "$(stock -C ../from rev-parse HEAD:dir1/file1)"
git for-each-ref --format='%(refname) %(objecttype) %(objectsize) %(tree)'
stock rev-list --objects --missing=print --all | grep -c '^?'

## a commit of a tree that a partial clone lacks
# exits: 128
# state: no-logs
partial 3 from
stock clone -q --bare --filter=tree:0 "file://$PWD/from" to.git
cd to.git
tree=$(stock -C ../from rev-parse "HEAD~1^{tree}")
git --no-lazy-fetch commit-tree -m none "$tree"
git update-ref refs/heads/made "$(git commit-tree -m some "$tree")"

## a stash in a partial clone
# exits: 1
# state: no-logs no-pseudorefs no-objects no-fsck
partial 6 from
stock clone -q --filter=blob:none "file://$PWD/from" to
stock -C to config remote.origin.url ../from
cd to
echo change >>dir0/file1
git stash -q
stock checkout -q HEAD~3
cd dir1
git stash apply
stock rev-list --objects --missing=print --all | grep '^?'

## a filter that is not allowed
# state: no-logs
history 3 from
git clone -q --bare --filter=blob:none "file://$PWD/from" to.git
git -C to.git rev-list --objects --all --count

## filters that a server does not like
# masks: progress order
# exits: 128
# state: no-logs
history 3 from
stock -C from config uploadpack.allowFilter true
stock -C from config uploadpackfilter.allow false
stock -C from config uploadpackfilter.blob:none.allow true
git clone -q --bare --filter=blob:none "file://$PWD/from" to.git
git clone -q --bare --filter=tree:0 "file://$PWD/from" to2.git

## an id that no ref has
# masks: progress order
history 5 from
git init -q --bare to.git
git -C to.git fetch -q "file://$PWD/from" "$(stock -C from rev-parse HEAD)"
git -C to.git -c protocol.version=0 fetch -q "file://$PWD/from" "$(stock -C from rev-parse HEAD~2)"

## an id that is allowed
history 5 from
stock -C from config uploadpack.allowReachableSHA1InWant true
git init -q --bare to.git
git -C to.git -c protocol.version=0 fetch -q "file://$PWD/from" "$(stock -C from rev-parse HEAD~2)"
git -C to.git cat-file -t FETCH_HEAD

## refs that are hidden
# masks: progress order
# exits: 128
history 3 from
stock -C from branch secret/one
stock -C from config uploadpack.hideRefs refs/heads/secret
git ls-remote from
git clone -q --no-local from to
git -C to fetch -q origin secret/one

## refs by pattern
history 3 from
stock -C from branch topic/a
stock -C from tag -a -m note v1
git ls-remote from 'refs/heads/topic/*'
git ls-remote --tags from
git ls-remote --symref from HEAD
git ls-remote --heads from main

## no repository
# masks: progress order
# exits: 128 128
mkdir empty
git clone -q empty to
git ls-remote ./nothing

## an empty one
repository from
git clone from to
git ls-remote from

## what is common is not sent again
history 20 from
git clone -q --no-local from to
(cd to && commit mine)
(cd from && commit theirs)
git -C to fetch -q origin
git -C to rev-list --count --all
git -C to fetch --negotiate-only --negotiation-tip=main origin | wc -l

## pruned and forced
history 4 from
stock -C from branch gone
git clone -q --no-local from to
stock -C from branch -D gone >/dev/null
stock -C from update-ref refs/heads/main HEAD~2
git -C to fetch --prune

## a damaged repository
# exits: 128
# state: no-fsck
# masks: progress words
history 3 from
rm -f from/.git/objects/"$(stock -C from rev-parse HEAD:dir1/file1 | sed 's|..|&/|')"
stock -C from prune-packed
rm -f from/.git/objects/pack/*
git clone -q --no-local from to

## with a detached HEAD
# exits: 128
history 3 from
stock -C from checkout -q --detach HEAD~1
git clone -q --no-local from to
git -C to symbolic-ref HEAD || git -C to rev-parse HEAD

## from a bundle's worth of alternates
history 4 from
git clone -q --shared from shared
git clone -q --no-local shared to
git clone -q --reference from --no-local shared third
cat third/.git/objects/info/alternates

## upload-pack by itself
# exits: 128 129 129
# masks: usage
history 1 from
git upload-pack nothing </dev/null
git upload-pack </dev/null
git upload-pack --bogus from </dev/null

## upload-pack advertises
history 2 from
git upload-pack --http-backend-info-refs from | tr '\0' '@' | sed 's/^\(0000\)*....//;s/agent=[^ ]*//;s/session-id=[^ ]*//'
GIT_PROTOCOL=version=2 git upload-pack --http-backend-info-refs from | sed 's/^....agent=.*/agent/'

## with bitmaps
history 30 from
stock clone -q --bare from bare.git
git -C bare.git repack -adbq
git clone -q --no-local bare.git to
git -C to rev-list --objects --all --count

## refs that are never listed are wanted by name
# in: files reftable
# exits: 128 128 128 128 128 128
history 5
stock config uploadpack.allowRefInWant true
stock config transfer.hideRefs refs/hidden
stock worktree add -q -b side ../wt HEAD~2
stock update-ref ORIG_HEAD HEAD~3
stock symbolic-ref MY_HEAD refs/heads/side
stock -C ../wt update-ref refs/bisect/x HEAD~1
stock update-ref refs/bisect/x HEAD~4
stock update-ref refs/hidden/x HEAD~4
echo "$(stock rev-parse HEAD)		branch 'main' of elsewhere" >.git/FETCH_HEAD
line() {
    printf '%04x%s' $((${#1} + 4)) "$1"
}
for name in HEAD ORIG_HEAD MY_HEAD FETCH_HEAD refs/bisect/x worktrees/wt/HEAD worktrees/wt/refs/bisect/x main-worktree/HEAD \
    MERGE_HEAD worktrees/none/HEAD worktrees/../HEAD refs/heads/../../HEAD main refs/hidden/x; do
    { line command=fetch; line object-format=sha1; printf 0001; line "want-ref $name"; line done; printf 0000; } >request
    GIT_PROTOCOL=version=2 git upload-pack --stateless-rpc . <request 2>/dev/null | grep -a -o '[0-9a-f]\{40\} [a-zA-Z].*\|ERR .*'
done
rm -r ../wt

## shallow, with all objects checked
history 5 from
git -c fetch.fsckObjects=true clone -q --depth=2 "file://$PWD/from" to
cat to/.git/shallow
git -C to -c fetch.fsckObjects=true fetch -q --deepen=1
cat to/.git/shallow
(cd from && commit six)
git -C to -c fetch.fsckObjects=true -c fetch.unpackLimit=100 fetch -q

## packets are traced
history 3 from
git clone -q from to
(cd from && commit four)
GIT_TRACE_BARE=1 GIT_TRACE_PACKET="$PWD/trace" git -C to fetch -q
grep -E 'upload-pack[<>] (command|want|have|ACK|ready|packfile|0)' trace
GIT_TRACE_BARE=1 GIT_TRACE_PACKET="$PWD/old" git -C to -c protocol.version=0 ls-remote -q origin
grep 'upload-pack[<>]' old | sed 's/\\0.*//'
GIT_TRACE_PACKET=trace git upload-pack --advertise-refs from | wc -l
rm trace old

## hidden by one setting and shown by another
history 2 from
stock -C from tag hidden && stock -C from tag shown
stock -C from config uploadpack.hideRefs refs/tags
stock -C from config --add transfer.hideRefs '!refs/tags/shown'
git ls-remote from
stock -C from config --unset uploadpack.hideRefs
stock -C from config --add uploadpack.hideRefs refs/tags
git ls-remote from

## settings without a value
# masks: words
# exits: 128 128 128
history 1 from
git -c transfer.hideRefs upload-pack from </dev/null
git -c uploadpack.hideRefs upload-pack from </dev/null
git -c uploadpackfilter.tree.maxDepth upload-pack from </dev/null
## from a repository whose history has gaps
# state: no-fsck no-objects
repository from
cd from
for name in one two; do commit $name; done
cd ..
stock clone -q from to
cd from
commit three
rm ".git/objects/$(stock rev-parse HEAD~2 | sed 's|..|&/|')"
cd ..
git -C to fetch -q origin
git -C to log --format=%s origin/main

## deepening a history that has gaps
# masks: order
# state: no-fsck no-objects
# exits: 128 128 128 128 128
repository from
cd from
for name in one two three four; do commit $name; done
rm ".git/objects/$(stock rev-parse HEAD~2 | sed 's|..|&/|')"
cd ..
git clone -q --depth 2 "file://$PWD/from" to
git -C to fetch -q --depth 3
git -C to fetch -q --depth 4
git -C to fetch -q --deepen 1
git clone -q --depth 4 "file://$PWD/from" other
git -c protocol.version=0 clone -q --depth 4 "file://$PWD/from" other

## what a server tells while it works
history 20 from
git clone -q --no-local from to
(cd from && echo more >>dir1/file1 && stock commit -q -a -m more && stock repack -adq)
git -C to fetch --progress 2>&1 | tr '\r' '\n' | sed -n 's/^remote: \([A-Z][a-z]* objects\):.*done.*/\1/p'

## shallow without a ref of that name, or with two
# needs git: 2.55
# masks: progress order
# exits: 128 128
history 4 from
stock -C from tag side HEAD~2
stock -C from branch side HEAD~1
git clone -q --shallow-exclude=nothing "file://$PWD/from" to
git clone -q --shallow-exclude=side "file://$PWD/from" to

## deepening beyond a branch that was merged
# needs git: 2.55
history 3 from
cd from
stock switch -q -c branch
commit four
commit five
stock switch -q main
stock merge -q --no-ff -m merge branch
cd ..
git clone -q --bare --depth 3 "file://$PWD/from" to.git
sort to.git/shallow
git -C to.git fetch -q origin --deepen=1
sort to.git/shallow
stock -C to.git log --format=%s

## upload-pack and values that are none
# exits: 128 128
history 1
for version in version=02 version=3:version=2 version=3 version=1:version=2 'version=2 ' version=+2; do
    GIT_PROTOCOL=$version git upload-pack --advertise-refs . | grep -c 'version 2'
    GIT_PROTOCOL=$version git upload-pack --http-backend-info-refs . | grep -c 'version 2'
done
for seconds in -1 2147483648 99999999999; do
    git -c uploadpack.keepAlive="$seconds" upload-pack --advertise-refs . | grep -c refs/heads
done

## fetches beside wrong names in the index of a pack
history 12
for bitmap in '' --bitmap; do
    stock clone -q --bare . m.git
    stock -C m.git repack -qad
    stock -C m.git multi-pack-index write $bitmap
    stock clone -q --bare --depth 2 "file://$PWD/m.git" shallow
    chmod u+w m.git/objects/pack/*.idx
    # In the middle of names, whose order stays.
    for at in 1400 1500 1600; do
        printf '\377\377\377' | dd of="$(echo m.git/objects/pack/*.idx)" bs=1 seek="$at" conv=notrunc 2>/dev/null
    done
    fetched_from m.git shallow
    rm -rf m.git
done

## fetches beside the wrong name of a blob in a multi-pack-index
history 12
stock clone -q --bare . m.git
stock -C m.git repack -qad
stock -C m.git multi-pack-index write
stock clone -q --bare --depth 2 "file://$PWD/m.git" shallow
blob=$(stock rev-parse HEAD~4:dir2/file3)
position=$(stock rev-list --objects --all | cut -c1-40 | sort | grep -n "$blob" | cut -d: -f1)
chmod u+w m.git/objects/pack/multi-pack-index
at=$((1148 + 20 * (position - 1) + 10))
printf '\377\377\377' | dd of=m.git/objects/pack/multi-pack-index bs=1 seek="$at" conv=notrunc 2>/dev/null
fetched_from m.git shallow
rm -rf m.git

## what may be wanted depends on the order of the settings
history 2
offers() {
    git "$@" upload-pack --advertise-refs . | tr ' \0' '\n\n' | grep -a '^allow-.*-in-want$' | tr '\n' ' '
    echo
}
tip=uploadpack.allowTipSHA1InWant reachable=uploadpack.allowReachableSHA1InWant any=uploadpack.allowAnySHA1InWant
offers -c $tip=true -c $any=false
offers -c $any=false -c $tip
offers -c $any=true -c $tip=false
offers -c $any=true -c $reachable=false
offers -c $any=true -c $tip=false -c $reachable=false
offers -c $reachable=true -c $tip=true
offers -c $any=true -c $any=no
stock config $any true
offers -c $tip=false
offers -c $tip=false -c $tip=true
GIT_PROTOCOL=version=1 offers -c $reachable=false

## what is served of what no ref shows depends on the order of the settings
# masks: progress order
# exits: 1 128 1
history 3 from
hidden=$(stock -C from rev-parse HEAD)
old=$(stock -C from rev-parse HEAD~1)
stock -C from update-ref refs/hidden/one "$hidden"
stock -C from reset -q --hard HEAD~2
stock -C from config transfer.hideRefs refs/hidden
stock -C from config uploadpack.allowTipSHA1InWant true
stock -C from config uploadpack.allowAnySHA1InWant false
git init -q --bare to.git
git -C to.git -c protocol.version=0 fetch -q "file://$PWD/from" "$hidden"
stock -C from config --unset uploadpack.allowTipSHA1InWant
stock -C from config uploadpack.allowAnySHA1InWant true
stock -C from config uploadpack.allowTipSHA1InWant true
stock -C from config uploadpack.allowReachableSHA1InWant false
git -C to.git -c protocol.version=0 fetch -q "file://$PWD/from" "$old" 2>/dev/null
git -C to.git -c protocol.version=0 fetch -q "file://$PWD/from" "$hidden"
stock -C from config uploadpack.allowTipSHA1InWant false
git init -q --bare to2.git
git -C to2.git -c protocol.version=0 fetch -q "file://$PWD/from" "$hidden"
git -C to2.git -c protocol.version=2 fetch -q "file://$PWD/from" "$hidden"

## refetched with another filter
# state: no-logs
partial 4 from
git clone -q --bare --filter=blob:none "file://$PWD/from" to.git
git -C to.git -c maintenance.auto=false fetch -q --refetch --filter=tree:1 origin
git -C to.git config remote.origin.partialclonefilter
git -C to.git -c maintenance.auto=false fetch -q --refetch --filter=blob:limit=70 origin
git -C to.git config remote.origin.partialclonefilter
git -C to.git rev-list --objects --missing=print --all | sort

## filters by size
# exits: 128 128 128 128
history 3 from
stock -C from config uploadpack.allowFilter true
for limit in 0 1 1k 1K 62 63 010 0x3f 1m -1 1kb x ''; do
    git clone -q --bare --filter=blob:limit=$limit "file://$PWD/from" to.git 2>/dev/null; echo $?
    stock -C to.git cat-file --batch-all-objects --batch-check 2>/dev/null
    rm -rf to.git
done
git clone -q --bare --filter=tree:2 --filter=blob:limit=1k --filter=tree:1 "file://$PWD/from" to.git
stock -C to.git config remote.origin.partialclonefilter

## promisor remotes that a client names
# needs git: 2.55
stock init -q --bare b.git
stock -C b.git config promisor.advertise true
stock -C b.git config remote.lop.promisor true
stock -C b.git config remote.lop.url u
stock -C b.git config remote.lop.token t
for fields in token,partialCloneFilter 'token, x' foo ' token' '' ,; do
    stock -C b.git config promisor.sendFields "$fields"
    GIT_PROTOCOL=version=2 git -C b.git upload-pack --http-backend-info-refs . | grep -a promisor
done
packet() { printf '%04x%s' $((${#1} + 4)) "$1"; }
for names in lop other 'lop;other' ';lop' 'lo%70' '%zz' ''; do
    { packet command=ls-refs; packet "promisor-remote=$names"; printf 00010000; } |
        GIT_PROTOCOL=version=2 git -C b.git upload-pack --stateless-rpc .
done

## shallow clones above a commit that is missing
# exits: 128 128
history 5 src
lost=$(stock -C src rev-parse HEAD~2)
rm -f "src/.git/objects/$(echo $lost | cut -c1-2)/$(echo $lost | cut -c3-)"
for version in 0 2; do
    for depth in 1 2; do
        git -c protocol.version=$version clone -q --bare --depth=$depth "file://$PWD/src" to.git
        cat to.git/shallow
        rm -rf to.git
    done
    git -c protocol.version=$version clone -q --bare --depth=3 "file://$PWD/src" to.git 2>/dev/null
done
rm -rf src

## settings of packs that make no sense on the server
# exits: 128 128 128
# needs git: 2.55
history 1 src
for setting in 'pack.depth x' 'pack.threads -1' 'pack.windowMemory x'; do
    stock -C src config $setting
    git clone -q --bare "file://$PWD/src" to.git 2>&1 | grep -a '^remote: fatal'
    stock -C src config --unset ${setting% *}
done

## only addresses of one kind
# exits: 128 128 128
git clone --bare -6 git://127.0.0.1:9/x y
git clone --mirror -4 --ipv6 git://127.0.0.1:9/x y
git clone --bare -n -q -6 git://127.0.0.1:9/x y

## a packfile URI without a value is not offered
# exits: 128
# needs git: 2.55
# masks: progress
history 2 src
stock -C src config --bool uploadpack.blobPackfileUri true
printf '[uploadpack]\n\tblobPackfileUri\n' >src/.git/more
stock -C src config --unset uploadpack.blobPackfileUri
stock -C src config include.path more
echo HEAD | git -C src pack-objects --revs --uri-protocol=https --stdout -q | wc -c

## wanted by name, of a partial clone that may fetch
# state: no-fsck no-objects
# masks: order
history 3 origin
stock -C origin config uploadpack.allowAnySHA1InWant true
stock -C origin config uploadpack.allowFilter true
stock clone -q --bare --filter=blob:none "file://$PWD/origin" from.git
stock -C from.git config uploadpack.allowFilter true
blob=$(stock -C origin rev-parse HEAD:dir1/file1)
repository to
GIT_NO_LAZY_FETCH=0 git -C to fetch -q "file://$PWD/from.git" "$blob"
stock -C to cat-file -t "$blob"

## the boundary of a shallow repository is told
history 3
stock clone -q --bare --depth 1 "file://$PWD" shallow.git
git upload-pack --advertise-refs shallow.git | tr '\0' '\n' | grep -a shallow | cut -d' ' -f1,2
git receive-pack --advertise-refs shallow.git | tr '\0' '\n' | grep -a shallow

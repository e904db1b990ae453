# repack, multi-pack-index and commit-graph.
# masks: progress pack-names
# state: packs

## repack
# in: sha1 sha256
history 10
git repack
git count-objects -v | grep -v size
commit one
git repack -a -d
git count-objects -v | grep -v size

## repack quietly, of nothing
history 1
git repack -adq
git repack -d
git repack -dq
git repack

## repack with a bitmap
history 10 from
stock clone -q --bare from to.git
git -C to.git repack -adbq
git -C to.git rev-list --count --use-bitmap-index --all

## repack with bitmaps of groups of refs
# needs git: 2.47
# exits: 128 128 128
history 30 from
for name in $(stock -C from rev-list HEAD); do stock -C from update-ref refs/heads/b/$name $name; done
stock clone -q --bare from to.git
cd to.git
flags() { od -An -tx1 -j7 -N1 objects/pack/*.bitmap; }
group() { git -c bitmapPseudoMerge.all.pattern='refs/heads/b/([0-9a-f])' -c bitmapPseudoMerge.all.$1 repack -adbq; }
group stableSize=3
flags
git rev-list --count --objects --use-bitmap-index --all
group maxMerges=-1
group sampleRate=0.5
group stableThreshold=now
git -c bitmapPseudoMerge.all.decay=1 repack -adbq
git -c bitmapPseudoMerge.all.pattern='(' repack -adbq
flags
git repack -adbq
flags
stock -c bitmapPseudoMerge.all.pattern=refs/ repack -adbq
git rev-list --count --objects --use-bitmap-index --branches
git repack -adbq
flags
# Git leaves the packs that it did not finish.
rm -f objects/pack/tmp_pack_*

## repack what is unreachable
history 5
commit one
stock reset -q --hard HEAD~1
stock reflog expire --expire=now --all
git repack -adq
git repack -Adq
git repack -adkq
git count-objects -v | grep -v size

## repack beside broken refs, which may name what nothing else keeps
# exits: 128 128 128 128 128
# masks: words
# state: no-fsck
lost_commit
echo "$lost" >.git/refs/heads/a..b
git repack -adq
git repack -Adq --unpack-unreachable=now
git repack --cruft --cruft-expiration=now -dq
git cat-file -e "$lost"
rm .git/refs/heads/a..b
echo nothing >.git/refs/heads/c
git repack -adq
git pack-objects --all --stdout </dev/null
git cat-file -e "$lost"

## repack until dates in any order
# state: packs loose
lost_commit
git repack -Adq --unpack-unreachable=01/31/2001
git repack -Adq --unpack-unreachable=31.01.2001
git repack --cruft --cruft-expiration=31-01-2001 -dq
git count-objects | cut -d, -f1

## repack asks a hook at the top of the work tree what is recent
lost_commit
printf '#!/bin/sh\necho %s\n' "$lost" >hook
chmod +x hook
stock config gc.recentObjectsHook ./hook
git -C dir1 repack --cruft --cruft-expiration=now -dq
git cat-file -e "$lost"

## repack until texts that are no dates
# state: packs loose
lost_commit
cp -a .git whole
for time in foo '' all false never friday; do
    for how in '-A --unpack-unreachable' '--cruft --cruft-expiration'; do
        rm -rf .git
        cp -a whole .git
        find .git/objects/pack -name '*.pack' -exec touch -d '2 days ago' {} +
        git repack -dq $how="$time"
        git count-objects | cut -d, -f1
    done
done
rm -rf whole

## repack without the bitmap that there was
history 3
git repack -adqb
git repack -adq
ls .git/objects/pack | sed 's/.*\.//' | sort

## repack with a multi-pack-index whose bitmap replaces that of a pack
history 3
git repack -adqb
commit one
git repack -dqbm
ls .git/objects/pack | sed 's/.*\.//' | sort

## repack with cruft packs that are long enough
# needs git: 2.49
history 3
for name in one two; do
    stock checkout -q -b $name main
    commit $name
    stock checkout -q main
    stock branch -q -D $name
    stock reflog expire --expire=now --all
    stock repack -d -q --cruft --combine-cruft-below-size=1
done
ls .git/objects/pack/*.mtimes | wc -l
git repack -d -q --cruft --combine-cruft-below-size=1
ls .git/objects/pack/*.mtimes | wc -l
git repack -d -q --cruft --combine-cruft-below-size=1m
ls .git/objects/pack/*.mtimes | wc -l

## repack with a multi-pack-index without cruft packs
# needs git: 2.51
# differs: git leaves them out only if a geometric repack has made the other packs complete
history 3
commit one
stock reset -q --hard HEAD~1
stock reflog expire --expire=now --all
git -c repack.midxMustContainCruft=false repack -d -q --cruft --write-midx
grep -ao 'pack-[0-9a-f]*.idx' .git/objects/pack/multi-pack-index | wc -l
git repack -d -q --cruft --write-midx
grep -ao 'pack-[0-9a-f]*.idx' .git/objects/pack/multi-pack-index | wc -l

## repack --geometric packs what is reachable again in cruft packs
# needs git: 2.51
repository
for midx in '' --write-midx; do
	history 3 repo
	cd repo
	stock config repack.midxMustContainCruft false
	stock repack -adq
	commit one
	one=$(stock rev-parse HEAD)
	commit two
	stock reset -q --hard HEAD~2
	stock reflog expire --expire=now --all
	stock repack -dq --cruft
	stock merge -q "$one"
	commit three
	git repack -dq --geometric=2 $midx
	for pack in .git/objects/pack/*.idx; do stock show-index <"$pack" | wc -l; done | sort -n
	grep -ao 'pack-[0-9a-f]*.idx' .git/objects/pack/multi-pack-index 2>/dev/null | wc -l
	stock fsck
	cd ..
	rm -rf repo
done

## packs that a killed repack has not named
# state: packs loose
# masks: pack-names
history 3
stock repack -adq
for how in -ad -Ad '-d --geometric=2' '-d --cruft' -d -a; do
	commit "file$how"
	stock rev-list --objects HEAD^! | cut -c1-40 >list
	stock pack-objects -q .git/objects/pack/.tmp-1-pack <list >/dev/null
	stock prune-packed
	echo "$how"
	git show-ref -d --verify refs/heads/main
	git repack -q $how
	ls -A .git/objects/pack | sed 's/-[0-9a-f]*\././; s/.*\.//' | sort
	ls -A .git/objects/pack | grep -c '^\.tmp'
	stock fsck
done
rm list

## repack of loose objects does not read trees of packed commits
# state: no-fsck no-objects
# exits: 128
history 4
gone=$(stock rev-parse HEAD~1^{tree})
lose "$gone"
commit more
git repack -dq
git count-objects -v | grep -E 'count|packs|in-pack'
git repack -adq

## repack -A turns what is unreachable loose
# state: packs loose
lost_commit
git repack -Adq
git count-objects | cut -d, -f1

## repack with packs that are kept
history 3
stock repack -adq
for pack in .git/objects/pack/*.pack; do : >"${pack%.pack}.keep"; done
commit one
git repack -adq
git repack -adq --pack-kept-objects

## repack --geometric
history 3
for n in 1 2 3; do commit "file$n"; stock repack -dq; done
git repack -dq --geometric=2
git repack -d --geometric=2

## repack with a multi-pack-index
history 3
stock repack -dq
commit one
git repack -dq --write-midx
git multi-pack-index verify
git repack -adq --write-midx --write-bitmap-index

## repack --cruft
history 3
commit one
stock reset -q --hard HEAD~1
stock reflog expire --expire=now --all
git repack --cruft -dq
git repack --cruft -d --cruft-expiration=now -q

## repack with a trace of what makes each pack
# needs git: 2.55
lost_commit
mkdir ../expired
traced() {
    echo "$*"
    GIT_TRACE2_EVENT=$PWD/../trace git -c repack.cruftWindow=5 -c repack.cruftThreads=1 repack -q "$@"
    sed -n 's/.*"event":"child_start".*"argv":\(.*\)}/\1/p; s/.*"child_exit".*"child_id":\([0-9]*\).*"code":\([0-9]*\).*/\1 ended with \2/p' ../trace |
        sed 's|"[^",]*/[^",]*",||'
    rm -f ../trace
}
traced -d --cruft --window=3
traced -d --cruft --cruft-expiration=now --expire-to=../expired/pack --max-cruft-size=1m
traced -a -d -f --depth=4 --threads=1 --path-walk
traced -a -d --filter=blob:none --filter=tree:3
traced -A -d --unpack-unreachable=now
traced -d --geometric=2

## repack, options that do not go together
# exits: 128 128 128
history 1
git repack -a -A
git repack --cruft --keep-unreachable -d
git repack --geometric=2 -A
git repack --filter-to=x
git repack --filter=blob:none

## repack, options that there are not
# exits: 129
# masks: usage
history 1
git repack --bogus
git repack more

## repack with alternates
history 4 from
stock -C from repack -adq
stock clone -q -s from to
cd to
commit one
git repack -ad -l -q
git count-objects -v | grep -v size
git repack -adq

## repack with alternates and bitmaps
# needs git: 2.55
history 4 from
stock -C from repack -adq
stock clone -q -s from to
cd to
commit one
git repack -adlbq
git repack -dlq --geometric=2 --write-midx --write-bitmap-index

## geometric repack beside promisor packs
# needs git: 2.53
# state: packs no-fsck
repository
stock config remote.origin.promisor true
stock config remote.origin.url ../elsewhere
for packs in 'p 8' 'p 1' 'p 1' 'o 8' 'o 1' 'o 1' 'p 2'; do
    for number in $(seq "${packs#* }"); do
        echo "$packs $number $((step = step + 1))" | stock hash-object -w --stdin
    done | stock pack-objects -q .git/objects/pack/pack >../id
    [ "${packs% *}" = o ] || : >".git/objects/pack/pack-$(cat ../id).promisor"
    stock prune-packed
done
git repack -d -q --geometric=2
for index in .git/objects/pack/*.idx; do
    echo "$(stock show-index <"$index" | wc -l) $(ls "${index%.idx}.promisor" 2>/dev/null | sed 's/.*promisor/promised/')"
done | sort

## repack of a partial clone whose packs have lost what was promised
# masks: progress pack-names
# exits: 128
history 3 from
stock -C from config uploadpack.allowFilter true
stock -C from config uploadpack.allowAnySHA1InWant true
stock clone -q --bare --filter=blob:none "file://$PWD/from" to.git
cd to.git
rm objects/pack/*.promisor
git config repack.writeBitmaps false
GIT_NO_LAZY_FETCH=1 git repack -adq
# Git leaves the packs that it did not finish.
rm -f objects/pack/tmp_pack_*
git repack -adq
git rev-list --objects --all --missing=print | grep '^?'
rm objects/pack/*.promisor
git repack -adq
git count-objects -v | grep -E 'in-pack|packs'
ls objects/pack | sed 's/.*[.]//' | sort | uniq -c

## repack beside a filter
# differs: git writes a second pack even if it has no objects
history 5
git repack -adq --filter=blob:none --filter-to=../elsewhere
ls ..

## repack beside a filter, packed and loose objects
# state: packs loose
history 5
stock repack -adq
for n in 1 2 3; do commit "file$n"; done
stock rm -q file1
git repack -q --filter=blob:none --filter-to=../first
git count-objects -v | grep -v size
cat ../first-*.idx | stock show-index | cut -d ' ' -f 2 | sort
git repack -dq --filter=tree:1 --filter-to=../third
git count-objects -v | grep -v size
stock repack -adq
git repack -Adq --filter=blob:none
stock reset -q --hard HEAD~1
stock reflog expire --expire=now --all
git repack -aq --filter=blob:none
git repack -adq --filter=blob:none
git count-objects -v | grep -v size

## repack beside a filter, loose objects without -a
# differs: packed objects stay in their packs; git copies those that the new pack lacks
history 5
stock repack -dq
commit one
stock repack -dq
commit two
git repack -d --filter=blob:none
git count-objects -v | grep -v size

## repack beside a filter, with a cruft pack
# differs: what is reachable is no cruft, which expires
history 3
stock repack -adq
commit one
stock reset -q --hard HEAD~1
stock reflog expire --expire=now --all
git repack --cruft -dq --filter=blob:none
git count-objects -v | grep -v size
for pack in .git/objects/pack/*.mtimes; do stock show-index <"${pack%.mtimes}.idx" | wc -l; done

## multi-pack-index, chain
# in: sha1 sha256
# exits: 128 128
history 3
stock repack -dq
git multi-pack-index write --incremental
for n in 1 2; do
	commit "file$n"
	stock repack -dq
	git multi-pack-index write --incremental
	git multi-pack-index write --incremental
	git multi-pack-index verify
done
cat .git/objects/pack/multi-pack-index.d/multi-pack-index-chain
ls .git/objects/pack/multi-pack-index.d
git multi-pack-index expire
git multi-pack-index repack
commit file3
stock repack -dq
git multi-pack-index write
ls .git/objects/pack | grep multi
ls .git/objects/pack/multi-pack-index.d
git multi-pack-index write --incremental
commit file4
stock repack -dq
git multi-pack-index write --incremental
ls .git/objects/pack | grep multi
wc -l <.git/objects/pack/multi-pack-index.d/multi-pack-index-chain

## multi-pack-index, chain made shorter
# needs git: 2.54
# exits: 129 129 129 128 128 128
# masks: usage
chain=.git/objects/pack/multi-pack-index.d/multi-pack-index-chain
history 3
stock repack -dq
git multi-pack-index write --incremental --bitmap
for n in 1 2 3; do
	commit "file$n"
	stock repack -dq
	git multi-pack-index write --incremental --bitmap
done
git multi-pack-index write --no-write-chain-file
git multi-pack-index write --incremental --base=none
git multi-pack-index compact --no-write-chain-file "$(sed -n 1p $chain)" "$(sed -n 2p $chain)"
git multi-pack-index compact "$(sed -n 1p $chain)" "$(sed -n 1p $chain)"
git multi-pack-index compact "$(sed -n 2p $chain)" "$(sed -n 1p $chain)"
git multi-pack-index compact abcd "$(sed -n 1p $chain)"
git multi-pack-index compact --incremental --bitmap "$(sed -n 2p $chain)" "$(sed -n 3p $chain)"
wc -l <$chain
ls .git/objects/pack/multi-pack-index.d | sed 's/.*\.//'
stock multi-pack-index verify
stock rev-list --test-bitmap HEAD 2>&1 | grep OK
git multi-pack-index compact "$(sed -n 1p $chain)" "$(sed -n 3p $chain)"
ls .git/objects/pack/multi-pack-index.d
stock multi-pack-index verify

## multi-pack-index, chain that repack keeps
# needs git: 2.55
# exits: 129 128 128
layers() {
	chain .git/objects/pack
	ls .git/objects/pack/*.pack | wc -l
}
history 40
git repack -adfq --write-midx=incremental --write-bitmap-index
for n in 1 2 3 4 5 6; do
	commit "file$n"
	git repack -dq --geometric=2 --write-midx=incremental --write-bitmap-index
	layers
	stock rev-list --test-bitmap HEAD 2>&1 | grep OK
done
git config repack.midxNewLayerThreshold 1
commit file7
stock repack -dq
commit file8
git repack -dq --geometric=2 --write-midx=incremental --write-bitmap-index
layers
git repack -d --write-midx=foo
git config repack.midxSplitFactor 1
git repack -dq --geometric=2 --write-midx=incremental
git config repack.midxSplitFactor 2
git config repack.midxNewLayerThreshold 0
git repack -dq --geometric=2 --write-midx=incremental
git config repack.midxNewLayerThreshold 8
git repack -adq
ls .git/objects/pack/multi-pack-index.d

## multi-pack-index, chain of which a geometric repack makes one
# needs git: 2.55
threshold=8
factor=2
layered() {
	# LAYERS PACKS LOOSE BITMAPS: the commits in each pack of layers, in other packs, and in no pack
	echo "$@"
	repository repo
	cd repo
	stock config repack.midxNewLayerThreshold $threshold
	stock config repack.midxSplitFactor $factor
	for packs in $1; do
		for commits in $(echo "$packs" | tr + ' '); do
			for n in $(seq "$commits"); do commit "$packs-$commits-$n"; done
			stock repack -dq
		done
		stock multi-pack-index write --incremental --bitmap
	done
	for commits in $2; do
		for n in $(seq "$commits"); do commit "new-$commits-$n"; done
		stock repack -dq
	done
	for n in $(seq "$3"); do commit "loose-$n"; done
	chain .git/objects/pack
	for bitmap in $4; do
		git repack -dq --geometric=2 --write-midx=incremental "$bitmap"
		chain .git/objects/pack
		stock multi-pack-index verify
		stock rev-list --test-bitmap HEAD 2>&1 | grep OK
	done
	cd ..
	rm -rf repo
}
repository
layered '20 10 2 1' '' 1 '-b -b'
layered '15 5 2' '1 2' 1 '-b -b'
layered '10 4' '4' 0 -b
threshold=1
layered '12 5 2 1' '1' 0 -b
layered '12 5+2 1' '2' 1 -b
threshold=2
layered '9 4+2' '' 2 -b
layered '9 2+1' '1' 0 -b
factor=5
layered '10 3 1' '' 1 -b
layered '10 3 1' '1' 0 --no-write-bitmap-index

## multi-pack-index, chain without packs that are kept
# needs git: 2.55
history 3
stock repack -adq
for pack in .git/objects/pack/*.pack; do : >"${pack%.pack}.keep"; done
commit one
git repack -dq --geometric=2 --write-midx=incremental
chain .git/objects/pack
stock multi-pack-index verify

## multi-pack-index, chain without cruft packs
# needs git: 2.55
lost_commit
stock repack -dq --cruft
commit two
git repack -dq --geometric=2 --write-midx=incremental -b
chain .git/objects/pack
stock multi-pack-index verify
stock rev-list --test-bitmap HEAD 2>&1 | grep OK

## multi-pack-index, chain made shorter on another base
# needs git: 2.55
# exits: 255 255 255 128 128
chain=.git/objects/pack/multi-pack-index.d/multi-pack-index-chain
history 3
stock repack -dq
git multi-pack-index write --incremental
for n in 1 2 3 4; do
	commit "file$n"
	stock repack -dq
	git multi-pack-index write --incremental
done
git multi-pack-index compact --incremental --base=abcd "$(sed -n 2p $chain)" "$(sed -n 3p $chain)"
git multi-pack-index compact --incremental --base="$(sed -n 3p $chain)" "$(sed -n 2p $chain)" "$(sed -n 3p $chain)"
git multi-pack-index compact --incremental --base="$(sed -n 4p $chain)" "$(sed -n 2p $chain)" "$(sed -n 3p $chain)"
git -c midx.version=1 multi-pack-index compact --incremental "$(sed -n 2p $chain)" "$(sed -n 3p $chain)"
git -c midx.version=3 multi-pack-index write --incremental
git multi-pack-index compact --incremental --base="$(sed -n 1p $chain)" "$(sed -n 3p $chain)" "$(sed -n 4p $chain)"
chain .git/objects/pack
stock multi-pack-index verify
git multi-pack-index compact --incremental --base=none "$(sed -n 2p $chain)" "$(sed -n 3p $chain)"
chain .git/objects/pack
stock multi-pack-index verify

## multi-pack-index
# in: sha1 sha256
history 3
stock repack -dq
commit one
stock repack -dq
git multi-pack-index write
git multi-pack-index verify
git multi-pack-index write --no-progress

## multi-pack-index with a bitmap
history 5 from
stock clone -q --bare from to.git
stock -C to.git repack -adq
git -C to.git multi-pack-index write --bitmap
git -C to.git rev-list --count --use-bitmap-index --all

## multi-pack-index with a bitmap beside a tag of a commit that is gone
# state: no-fsck no-objects
# exits: 128 128
history 3
gone=$(echo gone | stock commit-tree HEAD^{tree})
stock tag -a -m note v1 "$gone"
lose "$gone"
git multi-pack-index write --bitmap
stock pack-refs --all
git multi-pack-index write --bitmap

## multi-pack-index over a damaged one, and packs that are newer
history 2
git repack -dq
commit three
git repack -dq
git multi-pack-index write
git multi-pack-index repack
commit four
git repack -dq
git multi-pack-index expire
od -An -tu1 -j11 -N1 .git/objects/pack/multi-pack-index
git multi-pack-index verify
chmod u+w .git/objects/pack/multi-pack-index
printf x | dd of=.git/objects/pack/multi-pack-index bs=1 seek=1200 conv=notrunc status=none
git multi-pack-index write
git multi-pack-index verify
printf '[pack]\npreferBitmapTips\n' >> .git/config
git repack -adbq

## multi-pack-index of no packs
# needs git: 2.55
# exits: 255
repository
git multi-pack-index write
git multi-pack-index verify
git multi-pack-index expire
git multi-pack-index repack

## multi-pack-index that is as it should be
# needs git: 2.55
history 3
git repack -adq
index=.git/objects/pack/multi-pack-index
for options in '' --bitmap; do
    git multi-pack-index write $options
    touch -d 2001-01-01 $index
    git multi-pack-index write $options
    find $index -newermt 2002-01-01
done
git multi-pack-index write
touch -d 2001-01-01 $index
git repack -dq --geometric=2 --write-midx
find $index -newermt 2002-01-01

## multi-pack-index without objects
# exits: 1
repository
git pack-objects -q .git/objects/pack/pack </dev/null >/dev/null
git multi-pack-index write
git multi-pack-index verify

## multi-pack-index expires and repacks
history 3
for n in 1 2 3; do commit "file$n"; stock repack -dq; done
git multi-pack-index write
git multi-pack-index repack --batch-size=0
git multi-pack-index expire
git multi-pack-index verify

## multi-pack-index expire and repack beside what is none
# needs git: 2.55
# exits: 128 128 128
# state: packs
history 3
stock repack -dq
commit new
stock repack -dq
for text in garbage '' 'MIDX\001\001\001\000\000\000\000\000--------------------' 'XXXX------------------------------------------------'; do
    printf "$text" >.git/objects/pack/multi-pack-index
    git multi-pack-index expire
    git multi-pack-index repack
done
git -c core.multiPackIndex=false multi-pack-index verify
rm .git/objects/pack/multi-pack-index

## multi-pack-index that is damaged
# exits: 1 1 128 128 128 1 1 128 128 128 1
# state: no-fsck no-objects
history 3
stock repack -dq
commit one
stock repack -dq
stock multi-pack-index write
chmod u+w .git/objects/pack/multi-pack-index
index=.git/objects/pack/multi-pack-index
cp $index ../whole
damage() {
	cp ../whole $index
	printf "$2" | dd of=$index bs=1 seek="$1" conv=notrunc 2>/dev/null
	git multi-pack-index verify
}
damage 1200 x
damage 6 '\377'
damage 8 x
damage 12 x
damage 47 '\000'
damage 23 '\001'
damage 60 '\001'
damage 71 '\010'
damage 300 x
damage 24 x
head -c 30 ../whole >$index
git multi-pack-index verify

## multi-pack-index, options
# masks: usage
# exits: 129 129 129 128
history 1
git multi-pack-index
git multi-pack-index nothing
git multi-pack-index write --bogus
git multi-pack-index --object-dir=nothing write

## multi-pack-index from chosen packs
history 2
stock repack -dq
commit one
stock repack -dq
ls .git/objects/pack/*.idx | head -1 | xargs -n 1 basename | git multi-pack-index write --stdin-packs
git multi-pack-index verify
git multi-pack-index write --preferred-pack=nothing.pack

## commit-graph
# in: sha1 sha256
history 10
git commit-graph write --reachable
git commit-graph verify
cksum .git/objects/info/commit-graph
git commit-graph write --reachable --no-progress

## commit-graph in pieces
history 5
git commit-graph write --reachable --split
for n in 1 2 3; do commit "file$n"; done
git commit-graph write --reachable --split=no-merge
git commit-graph verify
git commit-graph write --reachable --split=replace
cat .git/objects/info/commit-graphs/commit-graph-chain

## a chain of commit-graphs whose files are missing or are not built on each other
# in: sha1 sha256
# exits: 1 1 1 1 1 1 1 1 1 1
history 4
for name in 2 3; do
    git commit-graph write --reachable --split=no-merge
    commit "$name"
done
git commit-graph write --reachable --split=no-merge
graphs=.git/objects/info/commit-graphs
stock init -q -b other kept && cp -R "$graphs" kept/graphs
set -- $(cat "$graphs/commit-graph-chain")
# damaged SCRIPT: what is said of a chain after the script, and of one that is written on top.
damaged() {
    rm -rf "$graphs"
    cp -R kept/graphs "$graphs"
    chmod -R u+w "$graphs"
    (cd "$graphs" && eval "$1")
    git commit-graph verify
    git commit-graph verify --shallow
    git commit-graph write --reachable --split=no-merge
    git commit-graph write --reachable --split=replace
    git commit-graph verify
}
damaged 'sed -i 1s/^./x/ commit-graph-chain'
damaged "rm -f graph-$1.graph"
damaged "rm -f graph-$3.graph"
damaged "cp graph-$1.graph graph-$2.graph"
damaged "size=\$(stat -c %s graph-$2.graph); printf '\\001' | dd of=graph-$2.graph bs=1 seek=\$((size - 34)) conv=notrunc status=none"
damaged 'echo >>commit-graph-chain'
damaged ': >commit-graph-chain'
rm -rf kept

## bytes behind the end of a commit-graph or multi-pack-index
# in: sha1 sha256
# exits: any
history 4
longer() {
    chmod u+w "$1" && echo longer >>"$1"
}
git commit-graph write --reachable
longer .git/objects/info/commit-graph
git commit-graph verify
git commit-graph write --reachable --no-progress
git commit-graph verify
git commit-graph write --reachable --split=replace
commit one
git commit-graph write --reachable --split=no-merge
graphs=.git/objects/info/commit-graphs
set -- $(cat "$graphs/commit-graph-chain")
longer "$graphs/graph-$1.graph"
git commit-graph verify
git commit-graph verify --shallow
longer "$graphs/graph-$2.graph"
git commit-graph verify --shallow
commit two
git commit-graph write --reachable --split=no-merge
git commit-graph write --reachable --split=replace
git commit-graph verify
stock repack -dq
git multi-pack-index write
longer .git/objects/pack/multi-pack-index
git multi-pack-index verify
git multi-pack-index write
git multi-pack-index verify

## commit-graph of commits named
# exits: 1
history 4
git rev-parse HEAD~1 | git commit-graph write --stdin-commits
git commit-graph verify
git rev-parse HEAD | git commit-graph write --append --stdin-commits
echo nonsense | git commit-graph write --stdin-commits
git rev-parse HEAD^{tree} | git commit-graph write --stdin-commits

## commit-graph of a root of 1970
repository
for seconds in 0 0 2000000000 1; do
    GIT_COMMITTER_DATE="@$seconds +0000" stock commit -q --allow-empty -m "$seconds"
done
git commit-graph write --reachable
sum() { od -An -tx1 .git/objects/info/commit-graph | tail -2; }
sum
git commit-graph verify
stock commit-graph verify
stock commit-graph write --reachable
sum
git commit-graph verify

## commit-graph of packs
history 4
stock repack -dq
git commit-graph write
ls .git/objects/pack/*.idx | xargs -n 1 basename | git commit-graph write --stdin-packs
git commit-graph verify

## commit-graph with filters of paths
# in: sha1 sha256
history 4
git commit-graph write --reachable --changed-paths
cksum .git/objects/info/commit-graph
commit one
git commit-graph write --reachable
cksum .git/objects/info/commit-graph
git commit-graph write --reachable --no-changed-paths
cksum .git/objects/info/commit-graph

## commit-graph with filters of paths that are not ASCII
history 2
for version in 1 2; do
	commit "é$version"
	git -c commitGraph.changedPathsVersion=$version commit-graph write --reachable --changed-paths
	cksum .git/objects/info/commit-graph
done
git commit-graph write --reachable
cksum .git/objects/info/commit-graph

## commit-graph with filters of paths, in pieces
history 3
git commit-graph write --reachable --split --changed-paths
commit one
git commit-graph write --reachable --split=no-merge
commit two
git commit-graph write --reachable --split=no-merge --no-changed-paths
cat .git/objects/info/commit-graphs/commit-graph-chain
git commit-graph write --reachable --split=replace --changed-paths --max-new-filters=1
cat .git/objects/info/commit-graphs/commit-graph-chain
git commit-graph verify

## commit-graph with some filters of paths
# exits: 129
history 8
git commit-graph write --reachable --changed-paths --max-new-filters=3
cksum .git/objects/info/commit-graph
git -c commitGraph.maxNewFilters=2 commit-graph write --reachable
cksum .git/objects/info/commit-graph
git commit-graph write --reachable --max-new-filters=x
git commit-graph write --reachable --no-max-new-filters
cksum .git/objects/info/commit-graph

## commit-graph with filters of paths by configuration
# needs git: 2.52
history 4
git -c commitGraph.changedPaths=true commit-graph write --reachable
cksum .git/objects/info/commit-graph
git -c commitGraph.changedPaths=true commit-graph write --reachable --no-changed-paths
cksum .git/objects/info/commit-graph
git config commitGraph.changedPathsVersion 7
git commit-graph write --reachable --changed-paths
cksum .git/objects/info/commit-graph

## commit-graph that is damaged
# exits: 2 1 1 1 1 1 1 1 1 1 1 1
history 4
stock commit-graph write --reachable
graph=.git/objects/info/commit-graph
chmod u+w $graph
cp $graph ../whole
damage() {
	cp ../whole $graph
	printf "$2" | dd of=$graph bs=1 seek="$1" conv=notrunc 2>/dev/null
	git commit-graph verify
}
damage 1200 x
damage 4 '\377'
damage 5 '\003'
damage 6 '\001'
damage 6 '\377'
damage 8 x
damage 12 x
damage 19 '\001'
damage 43 '\160'
damage 72 x
head -c 100 ../whole >$graph
git commit-graph verify
head -c 1300 ../whole >$graph
git commit-graph verify

## commit-graph, options
# masks: usage
# exits: 129 129 129 128
history 1
git commit-graph
git commit-graph nothing
git commit-graph write --bogus
git commit-graph write --reachable --stdin-commits </dev/null

## commit-graph that is not there
repository
git commit-graph verify
git commit-graph write --reachable

## gc, which calls several of them
history 10
git gc -q
git fsck

## a damaged commit-graph
# needs git: 2.55
# exits: 128 128 128
history 3
git commit-graph write --reachable
graph=.git/objects/info/commit-graph
chmod u+w $graph
cp $graph whole
size=$(wc -c <$graph)
# The first parent of the last commit, before the dates of three commits and the checksum.
printf '\001' | dd of=$graph bs=1 seek=$((size - 20 - 12 - 16)) conv=notrunc 2>/dev/null
git commit-graph verify --no-progress
rm $graph whole
mkdir .git/objects/info/commit-graphs
echo garbage >.git/objects/info/commit-graphs/commit-graph-chain
git commit-graph verify --no-progress 2>&1 | sed "s,'.*/info,'info,"
rm -r .git/objects/info/commit-graphs
tree=$(stock rev-parse HEAD^{tree})
lost=$(printf 'tree %s\nparent 1111111111111111111111111111111111111111\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx\n' "$tree" |
    stock hash-object -w -t commit --stdin --literally)
echo "$lost" | git commit-graph write --stdin-commits 2>&1 | grep fatal

## old files of a chain of commit-graphs
history 3
git commit-graph write --reachable --split
touch -d @1546362000 .git/objects/info/commit-graphs/old.graph
touch -d @1546362001 .git/objects/info/commit-graphs/new.graph
commit one
git commit-graph write --reachable --split --size-multiple=10 --expire-time='2019-01-01 12:00 -05:00'
ls .git/objects/info/commit-graphs | sed 's/-.*graph/-x/'

## what is told of changed-path filters
# state: no-files
history 6
stock commit -q --allow-empty -m empty
numbers() {
    GIT_TRACE2_EVENT="$PWD/../trace" git "$@"
    grep -o '"key":"\(filter\|settings\).*' ../trace
    rm ../trace
}
numbers commit-graph write --reachable --changed-paths --max-new-filters=2
numbers commit-graph write --reachable --changed-paths
numbers commit-graph write --reachable
numbers -c commitGraph.changedPathsVersion=2 commit-graph write --reachable --split=replace
rm -r .git/objects/info
GIT_TEST_BLOOM_SETTINGS_NUM_HASHES=9 GIT_TEST_BLOOM_SETTINGS_BITS_PER_ENTRY=15 GIT_TEST_BLOOM_SETTINGS_MAX_CHANGED_PATHS=1 \
    numbers commit-graph write --reachable --changed-paths
GIT_TEST_BLOOM_SETTINGS_NUM_HASHES=5 numbers commit-graph write --reachable --changed-paths
cksum .git/objects/info/commit-graph

## repack leaves the objects of named packs where they are
history 3
for name in one two three; do
    stock repack -dq
    commit "$name"
done
cp -r .git whole
for pack in .git/objects/pack/*.pack; do
    for options in -ab '-a --pack-kept-objects' '-a --write-bitmap-index --write-midx' -a '--geometric=2 --pack-kept-objects' '--cruft -b'; do
        git repack -dq $options --keep-pack="${pack##*/}"
        for index in .git/objects/pack/*.idx; do git show-index <"$index" | wc -l; done | sort
        ls .git/objects/pack | sed 's/.*\.//' | sort | uniq -c
        rm -rf .git
        cp -r whole .git
    done
done
rm -rf whole

## multi-pack-index with progress that is asked for before the verb
# needs git: 2.55
history 2
stock repack -dq
commit one
stock repack -dq
git multi-pack-index --progress write
git multi-pack-index --progress verify
git multi-pack-index --progress verify --no-progress
git multi-pack-index --no-progress verify --progress
git multi-pack-index --progress --no-progress verify
git multi-pack-index --progress expire

## commit-graph, options that it does not have
# masks: usage
# exits: 129 129
history 1
git commit-graph write --reachable --no-split
git commit-graph --progress write

## repack -l of a borrower makes no bitmap
# needs git: 2.55
# exits: 128 128 128
history 2 base
stock clone -q --bare --shared base to.git
git -C to.git repack -a -d -l
git -C to.git repack -a -d -l -q
git -C to.git repack -d -l
git -C to.git repack -a -d -l --no-write-bitmap-index
git -C to.git repack -l --write-midx
git -C to.git repack -d -l -b
git -C to.git repack -b --filter-to=x
git -C to.git repack -a -l --geometric=2
stock clone -q --shared base to
git -C to repack -a -d -l

## multi-pack-index beside an index whose pack is gone
# needs git: 2.55
# exits: 255 255
# state: no-fsck
history 2
stock repack -a -d -q
commit one
lost=$(echo main | stock pack-objects -q --revs .git/objects/pack/pack)
rm -f ".git/objects/pack/pack-$lost.pack"
git multi-pack-index write 2>&1 | sed "s/$lost/PACK/"
echo "pack-$lost.idx" | git multi-pack-index write --stdin-packs 2>&1 | sed "s/$lost/PACK/"
rm -f ".git/objects/pack/pack-$lost".*
git multi-pack-index write --stdin-packs <.
git commit-graph write --stdin-packs <.
git commit-graph write --stdin-commits <.
ls .git/objects/info

## traces to sockets that cannot be
history 1
for value in af_unix:rel af_unix: af_unix:dgram:rel af_unix:stream: af_unix:/nowhere/x; do
    GIT_TRACE2_EVENT=$value git show-ref refs/heads/main
    GIT_TRACE2_DST_DEBUG=1 GIT_TRACE2_EVENT=$value git show-ref refs/heads/main
done

## commit-graph of a shallow repository
# exits: 1 1 1
history 6
git clone -q --depth 3 "file://$PWD" shallow
cd shallow
for name in HEAD HEAD^{tree}; do
    git rev-parse $name | git commit-graph write --stdin-commits
done
echo nonsense | git commit-graph write --stdin-commits
echo 1234567890123456789012345678901234567890 | git commit-graph write --stdin-commits --no-progress
echo nonsense | git -c core.commitGraph=false commit-graph write --stdin-commits
echo nonsense | git commit-graph write --stdin-packs
git commit-graph write --reachable
GIT_PROGRESS_DELAY=0 git commit-graph write --reachable --progress
git -c core.commitGraph=false commit-graph write --reachable
git commit-graph write
ls .git/objects/info

## pack-objects --cruft with packs that are named twice
# exits: 128 128 128 128 128 128
lost_commit
commit two
stock repack -dq
for pack in .git/objects/pack/*.pack; do echo "${pack##*/}"; done >names
sed s/^/-/ names >gone
for list in 'names names' 'gone gone' 'names gone' 'gone names' names gone; do
    cat $list | git pack-objects --cruft -q .git/cruft >/dev/null
done
{ cat names; echo pack-0.pack; echo pack-0.pack; } | git pack-objects --cruft .git/cruft
{ cat names names; echo -pack-0.pack; } | git pack-objects --cruft .git/cruft
cat names names | git pack-objects --stdin-packs -q .git/cruft >/dev/null
rm -f .git/cruft* names gone

## repack --cruft beside damaged times
# needs git: 2.55
# exits: 128 128 128 128 128 128 128 128
# state: packs no-fsck
lost_commit
stock repack --cruft -dq
commit two
times=$(ls .git/objects/pack/*.mtimes)
chmod u+w "$times"
cp "$times" ../whole
try() {
    git repack --cruft -dq 2>&1 | sed "s,$PWD/,,"
    ls .git/objects/pack | wc -l
}
for bytes in 0 11 12 31 52; do
    head -c "$bytes" ../whole >"$times"
    try
done
{ printf XTME; tail -c +5 ../whole; } >"$times"
try
{ printf 'MTME\0\0\0\002'; tail -c +9 ../whole; } >"$times"
try
{ printf 'MTME\0\0\0\001\0\0\0\011'; tail -c +13 ../whole; } >"$times"
try
cp ../whole "$times"
try
rm ../whole

## settings of the delta search
# exits: 128 128 128 128 128 128 128 128 128
history 3
for value in 1048575 1048576 -5; do
    git -c pack.deltaCacheLimit=$value pack-objects --all -q --stdout </dev/null >/dev/null
    git -c pack.deltaCacheLimit=$value repack -adq
done
git -c pack.threads=x commit-graph write
for island in 'refs/(' '[' 'a{2'; do git -c pack.island="$island" repack -adqi; done
for name in pack.island pack.islandCore; do
    git -c $name pack-objects --all -q --stdout --delta-islands </dev/null
    git -c $name repack -adqi
    git -c $name -c repack.useDeltaIslands=true repack -adq
    git -c $name repack -dq
done

## multi-pack-index verify tells all that is wrong
# in: sha1 sha256
# exits: 1 1 128 1 1 1 1 1 1
history 3
stock repack -dq
commit one
stock repack -dq
stock multi-pack-index write
index=.git/objects/pack/multi-pack-index
chmod -R u+w .git/objects/pack
cp -r .git/objects/pack whole
chunk() { echo $(($(bytes whole/multi-pack-index $((12 + 12 * $1 + 4)) 8) + $2)); }
put() { printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }
verify() {
	git multi-pack-index verify
	cp whole/* .git/objects/pack
}
put $index "$(chunk 3 0)" '\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0\10'
verify
put $index "$(chunk 2 0)" '\377'
verify
put $index "$(chunk 3 3)" '\11'
put $index "$(chunk 3 15)" '\7'
verify
put $index "$(chunk 4 3)" '\377'
verify
first=$(ls .git/objects/pack/*.pack | head -n 1)
: >"$first"
verify
put "$first" 11 '\77'
verify
: >"${first%.pack}.idx"
verify
rm "${first%.pack}.idx"
verify
rm "$first"
verify

## multi-pack-index verify of a damaged chain
# needs git: 2.55
# in: sha1 sha256
# exits: 128 1
history 3
for n in 1 2 3 4; do
	commit "file$n"
	stock repack -dq
	stock multi-pack-index write --incremental
done
dir=.git/objects/pack/multi-pack-index.d
chmod -R u+w $dir
cp -r $dir whole
file() { echo "$dir/multi-pack-index-$(sed -n "$1p" whole/multi-pack-index-chain).midx"; }
put() { printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }
verify() {
	git multi-pack-index verify
	cp whole/* $dir
}
put "$(file 2)" 4 '\7'
verify
put "$(file 4)" 30 '\377'
verify
put "$(file 4)" "$(($(bytes "$(file 4)" 52 8) + 7))" '\7'
verify
rm "$(file 3)"
verify
: >"$(file 1)"
verify
echo abc >$dir/multi-pack-index-chain
verify
sed -i 2s/../xx/ $dir/multi-pack-index-chain
verify

## commit-graph verify tells all that is wrong
# needs git: 2.55
# exits: 1 1 1 1 1 128 1 128
history 6
stock commit-graph write --reachable
graph=.git/objects/info/commit-graph
chmod u+w $graph
cp $graph whole
size=$(($(bytes whole 5 1) * 12 + 8))
chunk() { echo $(($(bytes whole $((8 + 12 * $1 + 4)) 8) + $2)); }
put() { printf "$2" | dd of=$graph bs=1 seek="$1" conv=notrunc status=none; }
verify() {
	git commit-graph verify
	cp whole $graph
}
put "$(chunk 1 0)" '\377'
verify
put "$(chunk 1 $((size - 9)))" '\0'
verify
put "$(chunk 2 $((size + 4)))" '\200\0\0\0'
verify
put "$(chunk 2 $((size + 4)))" '\0\0\0\0'
verify
put "$(chunk 2 $((size + 12)))" '\0\0\0\0'
verify
put "$(chunk 3 0)" '\200'
verify
put $((8 + 12 * 4 + 11)) '\0'
verify
put "$(chunk 2 $((size + 7)))" '\100'
verify

## commit-graph verify of a damaged chain
# needs git: 2.55
# exits: 1 1 1 1
history 3
for n in 1 2 3; do
	commit "file$n"
	stock commit-graph write --reachable --split=no-merge
done
dir=.git/objects/info/commit-graphs
chmod -R u+w $dir
cp -r $dir whole
file() { echo "$dir/graph-$(sed -n "$1p" whole/commit-graph-chain).graph"; }
put() { printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }
verify() {
	git commit-graph verify
	git commit-graph verify --shallow
	cp whole/* $dir
}
for n in 1 2 3; do put "$(file $n)" "$(($(bytes "$(file $n)" 36 8) + 35))" '\0'; done
verify
put "$(file 3)" 4 '\7'
verify

## multi-pack-index with a wrong list of refs
# needs git: 2.55
# exits: 255 255 128 128
history 3
echo wrong >snapshot
git multi-pack-index write --bitmap --refs-snapshot=snapshot
git multi-pack-index write --bitmap --refs-snapshot=missing
git multi-pack-index write --incremental --bitmap --refs-snapshot=snapshot
stock repack -adq
git multi-pack-index write --bitmap --refs-snapshot=snapshot
git multi-pack-index write --bitmap --refs-snapshot=missing

## multi-pack-index of a bare repository with a pack that is cut off
# exits: 1
history 2
stock repack -adq
stock clone -q --bare . bare.git
cd bare.git
pack=$(ls objects/pack/*.pack)
cp "${pack%.pack}.idx" objects/pack/pack-00.idx
git multi-pack-index write
chmod u+w "$pack"
cp "$pack" whole
: >"$pack"
git multi-pack-index verify
cp whole "$pack"
rm objects/pack/pack-00.idx

## chains of deltas are as long as is allowed
# needs git: 2.55
# exits: 129 129
repository
n=0
while [ $n -lt 60 ]; do
    n=$((n + 1))
    echo "$n" >>file
    seq 100 400 >>file
    stock add file
    stock commit -q -m "$n"
done
longest() { stock verify-pack -v .git/objects/pack/*.idx | sed -n 's/^chain length = \([0-9]*\).*/\1/p' | sort -n | tail -n 1; }
within() { [ "$(longest || echo 0)" -le "$1" ] && echo "within $1"; }
for depth in 1 2 10; do
    git repack -adfq --depth=$depth
    within $depth
done
git repack -adfq --depth=55 --window=60
within 55
[ "$(longest)" -gt 20 ] && echo long
git repack -adq --depth=5
within 5
git -c pack.depth=7 repack -adfq
within 7
git repack -adfq --depth=10 --path-walk
within 10
git repack -adfq --depth=0
longest
for depth in -1 4096 x; do
    git repack -adfq --depth=$depth
    git pack-objects --all -q --stdout --depth=$depth </dev/null >/dev/null
done

## bitmaps of preferred tips
# needs git: 2.55
# masks: pack-names
history 300
stock update-ref refs/tips/a HEAD~133
stock update-ref refs/tips/b/c HEAD~171
# indexed COMMIT...: whether these have bitmaps.
indexed() {
    for commit; do stock rev-list --test-bitmap "$commit" 2>&1 | tail -n 1; done
}
for tips in refs/tips refs/tips/; do
    git -c pack.preferBitmapTips=$tips repack -adqb
    indexed HEAD HEAD~133 HEAD~171
done
git -c pack.preferBitmapTips=refs/tips/b repack -adqb
indexed HEAD HEAD~171
rm .git/objects/pack/multi-pack-index*
git -c pack.preferBitmapTips=refs/tips multi-pack-index write --bitmap
indexed HEAD HEAD~133 HEAD~171

## a chain of commit-graphs on one of an alternate
# exits: 1 1
history 3 base
stock -C base commit-graph write --reachable --split=no-merge
stock clone -q -s base al
(cd al && commit more)
git -C al commit-graph write --reachable --split=no-merge
git -C al commit-graph verify
chmod -R u+w base/.git/objects/info/commit-graphs
file=$(ls base/.git/objects/info/commit-graphs/*.graph)
tree=$(stock -C base rev-parse HEAD^{tree} | cut -c1-8 | sed 's/../\\x&/g')
at=$(grep -obUaP "$tree" "$file" | head -n 1 | cut -d: -f1)
printf x | dd of="$file" bs=1 seek=$((at + 3)) conv=notrunc status=none
git -C al commit-graph verify
git -C al commit-graph verify --shallow
git -C al commit-graph verify --no-shallow
rm -r al/.git/objects/info/commit-graphs
git -C al commit-graph verify

## a size multiple of nothing is the usual one
for size in --size-multiple=0 --no-size-multiple --size-multiple=1; do
    repository work
    for n in 1 2 3; do
        (cd work && commit $n)
        git -C work commit-graph write --reachable --split $size
        ls work/.git/objects/info/commit-graphs | wc -l
    done
    rm -rf work
done

## a multi-pack-index that has all packs stays
# needs git: 2.55
history 3
stock repack -dq
commit one
stock repack -dq
git multi-pack-index write --bitmap
cp .git/objects/pack/multi-pack-index before
git multi-pack-index write
cmp before .git/objects/pack/multi-pack-index
ls .git/objects/pack | grep -c bitmap
commit two
stock repack -dq
git multi-pack-index write
cmp -s before .git/objects/pack/multi-pack-index || echo another
ls .git/objects/pack | grep -c bitmap
rm before

## children of a trace
children() {
    grep -o '"event":"child_start".*' "$PWD/../trace" | grep -o '"use_shell.*'
    grep '"event":"child_exit"' "$PWD/../trace" | grep -o '"code":[0-9]*'
    rm "$PWD/../trace"
}
history 3
GIT_TRACE2_EVENT="$PWD/../trace" git repack -adq
children | sed 's/","--quiet.*/"/'
commit one
printf '003ewant %s no-progress\n00000009done\n' $(stock rev-parse HEAD) | GIT_TRACE2_EVENT="$PWD/../trace" git upload-pack . >/dev/null
children
stock init -q --bare ../to.git
GIT_TRACE2_EVENT="$PWD/../trace" git push -q ../to.git main
children | grep -o '"unpack-objects","--pack_[^"]*"\|"rev-list.*'
stock -C ../to.git config receive.unpackLimit 1
commit two
GIT_TRACE2_EVENT="$PWD/../trace" git push -q ../to.git main
children | grep -o '"index-pack","--stdin","--pack_[^"]*"\|"rev-list.*'

## what a trace says of the index, and the patterns of messages
# exits: 1 128 128
events() {
    GIT_TRACE2_EVENT="$PWD/../trace" git "$@"
    grep -o '"category":"\(cache_tree\|read_directory\)","\(label\|key\)":"[^"]*"' ../trace | grep -v '"read"'
    grep -o '"refresh[^}]*\|"fmt":[^}]*' ../trace
    rm ../trace
}
history 2
echo new >dir1/file1
touch file1
events update-index --refresh
events update-index dir1/file1
events write-tree
events write-tree
events update-ref refs/heads/x nothing
events update-ref refs/heads/x 'no thing'

## a HEAD that names an object that is missing
# in: files
# exits: 128 128 128
history 2
printf '%040d\n' 1 >.git/HEAD
git repack -adq
git pack-objects -q --all --stdout </dev/null
git repack -Adq
stock symbolic-ref HEAD refs/heads/none
git repack -adq

## refs to missing objects, wrong settings and a directory in place of a commit-graph
# needs git: 2.55
# exits: 1 128 128 128 128 128 128
history 3
mkdir .git/objects/info/commit-graph
git commit-graph verify
rmdir .git/objects/info/commit-graph
git commit-graph write --reachable --split=
git -c bitmapPseudoMerge.a.pattern=refs/ -c bitmapPseudoMerge.a.threshold=foo repack -adqb
git -c bitmapPseudoMerge.a.stableThreshold=foo repack -adqb
git -c bitmapPseudoMerge.a.threshold=1.day.ago repack -adqb
stock repack -adq
echo 1234567890123456789012345678901234567890 >.git/refs/heads/gone
git multi-pack-index write --bitmap
git pack-objects --all --stdout -q --missing=allow-any </dev/null
rm .git/refs/heads/gone
rm -f .git/objects/pack/tmp_*

## a multi-pack-index of a borrower that lacks objects for its bitmap
# needs git: 2.55
# exits: 255
history 6 base
stock -C base repack -adqb
stock clone -q -s base to
cd to
commit one
git repack -q -d --geometric=2 --write-midx -b

## unpack-objects beside an object that cannot be read
# needs git: 2.55
history 2
echo HEAD | stock pack-objects --revs --stdout -q >pack
file=.git/objects/$(stock rev-parse HEAD | sed 's,..,&/,')
chmod u+w "$file"
cp "$file" good
echo junk >"$file"
git unpack-objects -q <pack
cp good "$file"
rm good pack

## commit-graph in pieces, with a multiple that is out of range
# needs git: 2.55
# exits: 128 128 128 128
repository
for n in 1 2 3; do commit "f$n"; done
git commit-graph write --reachable --split
for n in 4 5; do commit "f$n"; done
git commit-graph write --reachable --split --size-multiple=-1
git commit-graph write --reachable --split=no-merge --size-multiple=-1
wc -l <.git/objects/info/commit-graphs/commit-graph-chain
commit f6
git commit-graph write --reachable --split --size-multiple=-1
wc -l <.git/objects/info/commit-graphs/commit-graph-chain
for n in 7 8; do commit "f$n"; done
git commit-graph write --reachable --split --size-multiple=-2147483648 --max-commits=1
commit f9
git commit-graph write --reachable --split --size-multiple=-2147483648 --max-commits=1
wc -l <.git/objects/info/commit-graphs/commit-graph-chain

## multi-pack-index that stays, with an unknown preferred pack
# needs git: 2.55
history 2
stock repack -dq
commit one
stock repack -dq
git multi-pack-index write --preferred-pack=nothing
git multi-pack-index write --preferred-pack=nothing
commit two
stock repack -dq
git multi-pack-index write --preferred-pack=nothing

## a reverse index beside a multi-pack-index
history 12
stock repack -dq
commit more
stock repack -dq
GIT_TEST_MIDX_WRITE_REV=1 git multi-pack-index write --bitmap
ls .git/objects/pack | sed -n 's/^multi-pack-index-.*\.//p'
GIT_TEST_MIDX_READ_RIDX=0 stock rev-list --test-bitmap HEAD 2>&1 | tail -1
GIT_TEST_MIDX_READ_RIDX=0 stock rev-list --use-bitmap-index --objects --count HEAD
commit again
git repack -dq --write-midx -b
ls .git/objects/pack | sed -n 's/^multi-pack-index-.*\.//p'

## a boundary of a shallow history that has gone is forgotten
history 4
stock rev-parse HEAD~1 >.git/shallow
git repack -dq
cat .git/shallow
echo 1234567890123456789012345678901234567890 >>.git/shallow
git repack -dq
cat .git/shallow

## what a trace says of making bitmaps
# needs git: 2.55
told() {
    echo "$*"
    GIT_TRACE2_EVENT_NESTING=9 GIT_TRACE2_EVENT="$PWD/../trace" git "$@"
    # How ancestors help is git's own way, and so are caches and the commits that are walked from.
    grep -o '"category":"\(pack-bitmap-write\|midx\)",.*' ../trace |
        grep -v 'pos_cache\|num_maximal\|midx_pack_order\|find_commits\|chunkfile\|load/' | sed 's/\(found_ancestor_nr\).*/\1/' | sort
    rm ../trace
}
history 6
told repack -adbq
commit one
told repack -adbq
told multi-pack-index write --bitmap
commit two
stock repack -dq
told multi-pack-index write --bitmap
for number in 1 2 3 4 5; do
    stock tag "old$number" HEAD~$number
done
stock config bitmapPseudoMerge.x.pattern refs/tags/
stock config bitmapPseudoMerge.x.threshold now
stock config bitmapPseudoMerge.x.stableThreshold now
told repack -adbq >out
# Git counts those that it walks from.
grep -v 'bitmaps_reused' out
rm out

## a geometric repack beside a damaged index
# exits: 128 128
# masks: paths repeats
history 3
commit one
stock repack -dq
commit two
stock repack -dq
index=$(ls .git/objects/pack/*.idx | sort | head -n 1)
chmod u+w "$index"
cp "$index" whole
truncate -s -5 "$index"
git repack --geometric=2 -dq --write-midx
touch "${index%idx}keep"
git repack --geometric=2 -dq --pack-kept-objects
rm "${index%idx}keep"
cat whole >"$index"
rm whole
git repack --geometric=2 -dq

## a geometric repack beside a loose object that is junk
# masks: paths progress pack-names
history 3
stock repack -adq
commit one
file=.git/objects/$(stock rev-parse HEAD:one | sed 's|..|&/|')
cp "$file" whole
commit two
rm -f "$file"
echo junk >"$file"
git repack --geometric=2 -dq
git count-objects
cp whole "$file"
rm -f whole
git repack --geometric=2 -dq
git count-objects

## commit-graph of packs that are not there
# exits: 1 1 1 1 1
history 3
stock worktree add -q other
for start in . dir1 .git other; do
    echo none.idx | git -C $start commit-graph write --stdin-packs
done
echo none.idx | git --git-dir="$PWD/.git" commit-graph write --stdin-packs

## alternates of the environment that are not there
history 3
GIT_ALTERNATE_OBJECT_DIRECTORIES='"x:/y' git for-each-ref refs/heads/main
GIT_ALTERNATE_OBJECT_DIRECTORIES='"x:/y' git add dir1

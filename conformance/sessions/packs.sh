# index-pack, verify-pack and unpack-objects.

## index-pack of a file
# in: sha1 sha256
history 10
git rev-list --objects --all | cut -d' ' -f1 | stock pack-objects -q out >name
mkdir x
cp out-*.pack x/p.pack
git index-pack x/p.pack | cmp - name
cmp x/p.idx out-*.idx
git index-pack -o x/q.idx x/p.pack | cmp - name
git index-pack --rev-index x/p.pack | cmp - name
git index-pack --index-version=1 -o x/one.idx x/p.pack >/dev/null

## index-pack from standard input
history 10 from
stock -C from repack -adq
git init -q --bare to.git
pack=$(echo from/.git/objects/pack/*.pack)
git -C to.git index-pack --stdin <"$pack" | sed 's/[0-9a-f]\{40\}/ID/'
git -C to.git index-pack --stdin --keep=why <"$pack" | sed 's/[0-9a-f]\{40\}/ID/'
cat to.git/objects/pack/*.keep

## index-pack says how much it has done
history 10 from
stock -C from repack -adq
git init -q --bare to.git
pack=$(echo from/.git/objects/pack/*.pack)
git -C to.git index-pack -v --stdin <"$pack" 2>err | sed 's/[0-9a-f]\{40\}/ID/'
tr '\r' '\n' <err | grep -v '[0-9]%.*[0-9]/' | sed 's/|.*//'
rm err

## index-pack of broken packs
# exits: 128 128 128 128
repository
echo nonsense >a.pack
git index-pack a.pack
: >empty.pack
git index-pack empty.pack
printf 'PACK\0\0\0\2\0\0\0\1' >short.pack
git index-pack short.pack
printf 'PACK\0\0\0\11\0\0\0\0' >version.pack
git index-pack version.pack

## index-pack of what was changed on the way
# exits: 128 128
history 5 from
stock -C from repack -adq
git init -q --bare to.git
cat from/.git/objects/pack/*.pack >a
size=$(wc -c <a)
head -c $((size - 30)) a | git -C to.git index-pack --stdin
{ head -c $((size - 1)) a; echo; } | git -C to.git index-pack --stdin

## index-pack and names
# exits: 128 128 128
# masks: usage
repository
git index-pack nothing.pack
echo 1 >a
git index-pack a
git index-pack --stdin --index-version=5 </dev/null

## index-pack, arguments that are too few or too many
# masks: usage
# exits: 129 129 129
repository
git index-pack
git index-pack a.pack b.pack
git index-pack --bogus a.pack

## index-pack --strict
# exits: 128
history 3 from
stock -C from repack -adq
git init -q --bare to.git
pack=$(echo from/.git/objects/pack/*.pack)
git -C to.git index-pack --strict --stdin <"$pack" | sed 's/[0-9a-f]\{40\}/ID/'
bad=$(printf 'tree %s\nauthor a <a> 1 +0000\n\nx\n' "$(stock -C from rev-parse HEAD^{tree})" | stock -C from hash-object -t commit --literally -w --stdin)
echo "$bad" | stock -C from pack-objects -q --stdout | git -C to.git index-pack --strict --stdin
echo "$bad" | stock -C from pack-objects -q --stdout | git -C to.git index-pack --stdin | sed 's/[0-9a-f]\{40\}/ID/'

## index-pack of a thin pack, unless told to
history 10
printf 'HEAD\n^HEAD~1\n' | stock pack-objects --revs --thin -q --stdout >thin.pack
git init -q --bare to.git
stock push -q to.git HEAD~1:refs/heads/main
git -C to.git index-pack --stdin <thin.pack
git -C to.git index-pack --stdin --fix-thin <thin.pack | sed 's/[0-9a-f]\{40\}/ID/'

## index-pack outside of a repository
# exits: 128
history 3 from
stock -C from repack -adq
cat from/.git/objects/pack/*.pack >a.pack
git index-pack a.pack | sed 's/[0-9a-f]\{40\}/ID/'
git index-pack --stdin <a.pack

## index-pack --strict outside of a repository, of what names missing files
# exits: 128
# needs git: 2.55
stock init -q from
tree=$(printf '100644 blob 1111111111111111111111111111111111111111\t.gitattributes\n' | stock -C from mktree --missing)
echo "$tree" | stock -C from pack-objects -q ../a >/dev/null
git index-pack --fsck-objects a-*.pack

## index-pack --verify
# exits: 128
history 3
stock repack -adq
cp .git/objects/pack/*.pack a.pack
cp .git/objects/pack/*.idx a.idx
chmod u+w a.idx
git index-pack --verify a.pack
git index-pack --verify-stat a.pack
printf x | dd of=a.idx bs=1 seek=1100 conv=notrunc 2>/dev/null
git index-pack --verify a.pack

## index-pack --verify and verify-pack with a reverse index
# exits: 128 1
history 3
stock -c pack.writeReverseIndex=true repack -adq
for file in .git/objects/pack/*; do cp "$file" "a.${file##*.}"; done
chmod u+w a.rev
git index-pack --verify a.pack
git verify-pack a.pack
printf xxxx | dd of=a.rev bs=1 seek=14 conv=notrunc 2>/dev/null
git index-pack --verify a.pack
git index-pack --no-rev-index --verify a.pack
git verify-pack a.pack

## verify-pack
history 10
stock repack -adfq
git verify-pack .git/objects/pack/*.idx
git verify-pack -s .git/objects/pack/*.idx
git verify-pack -v .git/objects/pack/*.idx

## verify-pack, by other names
# exits: 1 1
history 3
stock repack -adq
cp .git/objects/pack/*.pack a.pack
cp .git/objects/pack/*.idx a.idx
git verify-pack a.pack
git verify-pack a
git verify-pack -v a.idx | tail -2
git verify-pack nothing
echo >b.idx
git verify-pack b

## verify-pack of damage
# differs: zlib's own words are not told
# exits: 1
history 3
stock repack -adq
cp .git/objects/pack/*.pack a.pack
cp .git/objects/pack/*.idx a.idx
chmod u+w a.pack
printf x | dd of=a.pack bs=1 seek=30 conv=notrunc 2>/dev/null
git verify-pack a.idx

## verify-pack, arguments
# masks: usage
# exits: 129 129
repository
git verify-pack
git verify-pack --bogus a

## unpack-objects
# in: sha1 sha256
# state: loose
history 1 from
stock -C from repack -adq
git init -q to
cd to
git unpack-objects -q <"$(ls ../from/.git/objects/pack/*.pack)"
git cat-file --batch-check --batch-all-objects

## unpack-objects, only tried
history 2 from
stock -C from repack -adq
git init -q to
cd to
git unpack-objects -n -q <"$(ls ../from/.git/objects/pack/*.pack)"
git count-objects

## unpack-objects of broken packs
# exits: 128 128 128
repository
echo nonsense | git unpack-objects
git unpack-objects </dev/null
printf 'PACK\0\0\0\2\0\0\0\1' | git unpack-objects -q

## unpack-objects, arguments
# masks: usage
# exits: 129 129
repository
git unpack-objects more </dev/null
git unpack-objects --bogus </dev/null

## unpack-objects --strict
# exits: 128
history 1 from
bad=$(printf 'tree %s\nauthor a <a> 1 +0000\n\nx\n' "$(stock -C from rev-parse HEAD^{tree})" | stock -C from hash-object -t commit --literally -w --stdin)
git init -q to
cd to
echo "$bad" | stock -C ../from pack-objects -q --stdout | git unpack-objects -q --strict

## unpack-objects within a limit
# exits: 128
history 3 from
stock -C from repack -adq
git init -q to
cd to
git unpack-objects -q --max-input-size=100 <"$(ls ../from/.git/objects/pack/*.pack)"

## a damaged delta base of which there is another copy
# exits: 128 128 128 128 128
# masks: words progress pack-names
# state: no-logs
repository whole
for number in 1 2 3 4; do
    for file in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        echo "file $file" >"whole/file$file"
    done
    seq 1 200 | sed "s/^${number}7\$/changed $number/" >whole/many
    seq 1 "$number" >>whole/many
    echo "$number" >"whole/file$number"
    stock -C whole add . && tick && stock -C whole commit -q -m "$number"
done
stock -C whole repack -q -a -d --depth=50 --window=50
# Of an object that many others are deltas of: another copy, in a pack or loose, and then damage in the pack.
bases() {
    stock verify-pack -v .git/objects/pack/pack-*.idx | awk -v kind="$1" '$2 == kind && NF == 5 { print $1, $5; exit }'
}
damaged() {
    cp -a whole "$1" && cd "$1" || return
    set -- "$1" "$2" "$3" "$4" "$5" $(bases "$2")
    case $3 in
    loose)
        pack=$(echo .git/objects/pack/pack-*.pack)
        mkdir ../away && mv .git/objects/pack/* ../away
        stock unpack-objects -q <"../away/${pack##*/}"
        name=$(echo "$6" | sed 's|..|&/|')
        mv ".git/objects/$name" ../copy
        rm -r .git/objects/[0-9a-f][0-9a-f] && mv ../away/* .git/objects/pack && rmdir ../away
        mkdir -p ".git/objects/${name%/*}" && mv ../copy ".git/objects/$name"
        ;;
    packed) echo "$6" | stock pack-objects -q .git/objects/pack/pack >/dev/null ;;
    esac
    for pack in .git/objects/pack/pack-*.pack; do
        chmod u+w "$pack"
        # The pack of one object is short.
        [ "$(wc -c <"$pack")" -lt 1000 ] || printf "$5" | dd of="$pack" bs=1 seek=$(($7 + $4)) conv=notrunc 2>/dev/null
    done
}
check() {
    (
        damaged "$@"
        git pack-objects --all --stdout --no-reuse-object --no-reuse-delta </dev/null >../pack
        stock index-pack --stdin <../pack >/dev/null 2>&1 || echo no pack
        git rev-list --objects --all >/dev/null || echo not walked
        git repack -q -a -d -f
        stock fsck --full --strict
        stock cat-file --batch-all-objects --batch-check | cksum
    )
}
check a blob loose 9 '\377\377'
check b blob packed 9 '\377\377'
check c tree loose 9 '\377\377'
check d tree packed 9 '\377\377'
check e commit loose 9 '\377\377'
check f blob packed 0 '\360'
check g tree packed 0 '\360'
check h blob none 9 '\377\377'
check i tree none 9 '\377\377'
rm -rf whole

## paths below the top
history 8
stock repack -adq
mkdir -p sub ../alt
cp .git/objects/pack/*.pack sub/p.pack
cd sub
stock rev-list HEAD | git pack-objects -q here >/dev/null
ls .. . | sed 's/-[0-9a-f]*[.]/-HASH./'
rm ../here-*
git index-pack p.pack >/dev/null
git index-pack -o x.idx p.pack >/dev/null
git verify-pack p.idx
git multi-pack-index --object-dir=.git/objects write
git multi-pack-index --object-dir=.git/objects verify --no-progress
git commit-graph write --object-dir=.git/objects --reachable --no-progress
git commit-graph verify --object-dir=.git/objects --no-progress
rm ../.git/index
git repack -adq --filter=blob:none --filter-to=left
ls .. . | sed 's/-[0-9a-f]*[.]/-HASH./'
mv ../left-* ../.git/objects/pack/
cd ..
for pack in .git/objects/pack/left-*; do
    mv "$pack" "$(echo "$pack" | sed 's/left/pack/')"
done
rm -f sub/x.rev sub/p.rev

## unreachable objects from the future
# state: packs
history 2
commit one
old=$(stock rev-parse HEAD)
stock reset -q --hard HEAD~1
stock repack -adq
stock reflog expire --expire=all --all
touch -d '2040-01-01' .git/objects/$(echo "$old" | sed 's,^..,&/,')
git repack --cruft --cruft-expiration=now -dq
stock cat-file -t "$old"
git repack --cruft --cruft-expiration=all -dq
stock cat-file -t "$old"
stock count-objects -v | grep -v size

## pack-objects: what is reused from packs with bitmaps
# in: sha1 sha256
repository
git config maintenance.auto false
for name in a b c; do
    commit "$name"
    stock repack -dq
done
# totals SETTING: the last line for a clone, for its beginning, and for one commit.
totals() {
    for wants in HEAD HEAD~1 'HEAD~1 ^HEAD~2'; do
        for form in --delta-base-offset --no-delta-base-offset; do
            printf '%s\n' $wants | git -c "$1" pack-objects --revs --stdout --progress $form 2>&1 >pack | grep Total
            stock index-pack -o idx pack >objects
        done
    done
}
preferred=$(cd .git/objects/pack && ls *.idx | sort | head -n 1)
stock multi-pack-index write --bitmap "--preferred-pack=$preferred"
for setting in pack.allowPackReuse=single pack.allowPackReuse=MULTI pack.allowPackReuse=true feature.experimental=true \
    pack.allowPackReuse=false; do
    totals "$setting"
done
stock repack -adqb
rm -f .git/objects/pack/multi-pack-index
for setting in pack.allowPackReuse pack.allowPackReuse=multi pack.allowPackReuse=No; do
    totals "$setting"
done
rm -f pack idx objects *.rev

## pack-objects: a value of pack.allowPackReuse that is none
# exits: 128 128
history 1
echo HEAD | git -c pack.allowPackReuse=some pack-objects --revs --stdout
echo HEAD | git -c pack.allowPackReuse=1 pack-objects --revs --stdout

## settings of packs that are out of range
# exits: 128 128 128 128 128 128 128 128 128 128 128 128
history 3
for setting in pack.threads=-1 pack.threads=99999999999 pack.window=99999999999 pack.depth=99999999999 \
    pack.compression=99999999999 pack.windowMemory=-1 pack.packSizeLimit=-1 pack.deltaCacheSize=99999999999 \
    pack.deltaCacheLimit=99999999999 pack.indexVersion=-1 core.deltaBaseCacheLimit=-2 pack.useBitmaps=99999999999; do
    git -c $setting repack -adq
done
git -c pack.depth=5000 repack -adqf

## index-pack with settings that are out of range
# exits: 128 128
history 3
stock pack-objects --all -q --stdout </dev/null >p.pack
git -c pack.threads=-1 index-pack p.pack
git -c pack.threads=99999999999 index-pack p.pack
git -c pack.threads=2 index-pack p.pack

## index-pack of a file of any name, if its index has one
# exits: 128 128 128 128 128 128 128
history 3
stock repack -adq
cp .git/objects/pack/*.pack plain
git index-pack -o x.idx plain | sed 's/[0-9a-f]\{40\}/ID/'
git index-pack --rev-index -o y.idx plain | sed 's/[0-9a-f]\{40\}/ID/'
git index-pack --no-rev-index -o z.idx plain | sed 's/[0-9a-f]\{40\}/ID/'
ls ?.*
cmp x.idx .git/objects/pack/*.idx
git index-pack -o x plain
git index-pack -o x.idx nothing
git index-pack -o x.idx --keep plain
git index-pack -o none/x.idx plain
git index-pack -o plain/x.idx plain
git index-pack --stdin none/x.pack <plain
git index-pack --stdin -o none/x.idx <plain
rm -f .git/objects/pack/tmp_*

## index-pack --fsck-objects of tags that say another kind of object
# exits: 128 128 128 128 128
history 3
for kinds in 'blob HEAD' 'tree HEAD' 'tag HEAD' 'tree HEAD:dir0/file3' 'commit HEAD:dir0/file3'; do
    target=$(stock rev-parse "${kinds#* }")
    bad=$(printf 'object %s\ntype %s\ntag x\ntagger a <a@x> 1 +0000\n\nm\n' "$target" "${kinds% *}" | stock hash-object -t tag -w --literally --stdin)
    { echo "$bad"; stock rev-list --objects HEAD | cut -c1-40; } | stock pack-objects -q --stdout >both.pack
    echo "$bad" | stock pack-objects -q --stdout >tag.pack
    git index-pack --fsck-objects both.pack
    git index-pack both.pack | sed 's/[0-9a-f]\{40\}/ID/'
    git index-pack --fsck-objects tag.pack | sed 's/[0-9a-f]\{40\}/ID/'
done
rm -f ./*.pack ./*.idx ./*.rev

## verify-pack of indexes whose layout is damaged
# exits: 1 128 1 128 1 128 1 128 1 1
history 3
stock repack -adq
for file in .git/objects/pack/*; do cp "$file" "a.${file##*.}"; done
chmod u+w a.*
cp a.idx whole
damage() {
    cp whole a.idx
    printf "$2" | dd of=a.idx bs=1 seek="$1" conv=notrunc 2>/dev/null
    git verify-pack a
    git index-pack --verify a.pack
}
damage 0 x
damage 7 '\003'
damage 8 x
damage 1028 x
head -c 1000 whole >a.idx
git verify-pack -v a
cp whole a.idx
head -c 60 a.rev >b
cp b a.rev
git verify-pack a
rm a.* b whole

## index-pack with numbers of indexes that lack something
# exits: 128 128
history 3
echo main | stock pack-objects -q --revs p
mkdir x
cp p-*.pack x/p.pack
for version in 2, 1, , 1,5 ,5 1,0x7fffffff '' 02 2,010 2,4294967300 2,0x80000000 2x; do
    echo "$version"
    git index-pack --index-version="$version" x/p.pack && stock show-index <x/p.idx | head -n 2
    od -An -tx1 -N 8 x/p.idx
    rm -f x/p.idx
done 2>&1
rm -r x p-*

## inside a repository of an unknown format
# exits: 128 128 128 128 128 128
history 3
place=${PWD%/*}
stock repack -adq
cp .git/objects/pack/*.pack "$place/p.pack"
cp .git/objects/pack/*.idx "$place/p.idx"
all() {
    git verify-pack "$place/p.idx"
    git index-pack -o "$place/q.idx" "$place/p.pack"
    git index-pack --strict -o "$place/q.idx" "$place/p.pack"
    git index-pack --stdin <"$place/p.pack"
    git unpack-objects -q <"$place/p.pack"
    rm -f "$place"/q.*
} 2>/dev/null
sed -i 's/repositoryformatversion.*/repositoryformatversion = 99/' .git/config
all
(cd .git && all)
sed -i 's/repositoryformatversion.*/repositoryformatversion = 1/' .git/config
printf '[extensions]\n\tfoo = bar\n' >>.git/config
all
sed -i /foo/d .git/config
rm "$place"/p.*

## verify-pack where settings are wrong, in a file or in the call
# exits: 1 1 1 1 128 128
# masks: progress
history 3
stock repack -adq
cp .git/config config
for setting in '[core' '[core]bare=maybe'; do
    echo "$setting" >>.git/config
    git verify-pack .git/objects/pack/*.idx
    cp config .git/config
done
echo '[core' >>.git/config
git verify-pack -v .git/objects/pack/*.idx x
git verify-pack -s .git/objects/pack/*.idx
mv config .git/config
git -c nothing verify-pack -v .git/objects/pack/*.idx
git -C nothing verify-pack -v .git/objects/pack/*.idx

## index-pack of what has more behind the pack
# exits: 128 128 128 128
history 3
echo main | stock pack-objects --revs --stdout -q >good
for junk in x 'more words' '\0'; do
    { cat good; printf "$junk"; } >bad
    stock init -q --bare to.git
    git -C to.git index-pack --stdin <bad
    ls to.git/objects/pack | grep -v tmp_
    git -C to.git unpack-objects -q <bad | od -c
    rm -r to.git
done
stock init -q --bare to.git
cat good good >bad
git -C to.git index-pack --stdin --fix-thin <bad
rm -r to.git

## tags of what is missing, and what is made of what refs reach
# in: sha1 sha256
# needs git: 2.55
# exits: any
# state: no-fsck no-objects no-files
history 3
gone=$(echo gone | stock hash-object --stdin)
for kind in commit blob; do
    for name in a b; do
        target=${tag:-$gone}
        tag=$(printf 'object %s\ntype %s\ntag %s\ntagger A <a@x> 1 +0000\n\nm\n' $target $kind $name | stock hash-object -t tag -w --stdin --literally)
        kind=tag
    done
    echo $tag >.git/refs/tags/$name
    git commit-graph write --reachable
    git commit-graph verify
    echo $tag | git commit-graph write --stdin-commits
    { stock rev-parse HEAD; echo $tag; } | git commit-graph write --stdin-commits
    stock rev-parse HEAD | git commit-graph write --stdin-commits
    for options in --all '--all --missing=allow-any' --revs '--revs --missing=allow-any'; do
        echo $tag | git pack-objects $options --stdout -q | wc -c
    done
    git repack -dq
    git repack -adq
    git repack -adbq
    rm .git/refs/tags/$name
    unset tag
done
stock commit-graph verify
## a pack that does not fit into the address space
# in: sha1 sha256
repository from
cd from
seq 1 6000000 >large
stock -c core.compression=0 add .
for end in 2000 2100 2200; do
    seq 1 $end >text
    commit text-$end
    stock add text
done
stock commit -q -m last
echo HEAD | stock -c pack.compression=0 -c core.bigFileThreshold=1m pack-objects --revs --stdout -q >../pack
cd ..
stock init -q --bare to.git && stock -C to.git config core.looseCompression 0
(
    ulimit -v 100000
    git -C to.git unpack-objects -q --strict <pack
)
stock -C to.git cat-file --batch-all-objects --batch-check
rm -rf to.git
stock init -q --bare to.git && stock -C to.git config core.looseCompression 0
git -C to.git unpack-objects -q -r <pack
stock -C to.git cat-file --batch-all-objects --batch-check
rm -rf from pack

## a split index without its shared index ends what needs all objects
# exits: 128 128
# masks: paths
# state: no-index no-fsck
history 3
stock update-index --split-index
rm .git/sharedindex.*
{ git repack -adq; git pack-objects -q --all --indexed-objects pack </dev/null; } 2>&1 | sed 's/sharedindex[.][0-9a-f]*/sharedindex.ID/'
## objects of another kind than links to them say
# exits: 128 128 128 128 128 128 128
history 1 from
cd from
blob=$(echo b | stock hash-object -w --stdin)
tree=$(printf '100644 blob %s\tb\n' "$blob" | stock mktree)
people='author A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nm\n'
commit=$(printf "tree $blob\n$people" | stock hash-object -t commit --literally -w --stdin)
# mktree refuses these.
entry() {
    perl -e 'print "$ARGV[0] x\0", pack("H*", $ARGV[1])' "$1" "$2" | stock hash-object -t tree --literally -w --stdin
}
directory=$(entry 40000 "$blob")
file=$(entry 100644 "$tree")
cd ..
pack() {
    printf '%s\n' "$@" | stock -C from pack-objects -q --stdout >bad.pack
}
for objects in "$commit $blob" "$directory $blob" "$file $tree $blob"; do
    pack $objects
    stock init -q --bare "to-$objects"
    git -C "to-$objects" index-pack --strict --stdin <bad.pack
done
stock init -q --bare to
pack "$commit" "$blob"
git -C to unpack-objects -q --strict <bad.pack
pack "$blob" "$tree"
stock -C to unpack-objects -q <bad.pack
for object in "$commit" "$directory" "$file"; do
    pack "$object"
    git -C to index-pack --strict --stdin <bad.pack
done
# Git leaves packs that it refused.
rm -rf to*

## packs whose objects contradict each other, in any order
# state: 
# exits: 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128
# Entries of a pack, first those of the first argument.
packed() {
    perl -MDigest::SHA=sha1 -MCompress::Zlib -e '
        my %number = (commit => 1, tree => 2, blob => 3, tag => 4);
        my $pack = "PACK" . pack("NN", 2, scalar @ARGV);
        for (@ARGV) {
            my ($kind, $file) = split /:/;
            open my $in, "<", $file; local $/; my $content = <$in>;
            my $size = length $content;
            my $byte = $number{$kind} << 4 | $size & 15;
            for ($size >>= 4; $size; $size >>= 7) {
                $pack .= chr($byte | 128);
                $byte = $size & 127;
            }
            $pack .= chr($byte) . compress($content);
        }
        print $pack, sha1($pack)' "$@"
}
id() {
    stock hash-object --literally -t "${1%:*}" "${1#*:}"
}
people='author A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nm\n'
entry() {
    perl -e 'print "$ARGV[0] x\0", pack("H*", $ARGV[1])' "$1" "$(id "$2")"
}
mkdir objects
cd objects
echo content >blob
entry 100644 blob:blob >tree
printf "tree $(id tree:tree)\n$people" >commit
printf "object $(id commit:commit)\ntype commit\ntag x\ntagger A <a@b> 1 +0000\n\nm\n" >tag
for kind in blob tree; do
    printf "tree $(id tree:tree)\nparent $(id $kind:$kind)\n$people" >parent-$kind
    printf "tree $(id $kind:$kind)\n$people" >tree-$kind
    printf "object $(id $kind:$kind)\ntype commit\ntag y\ntagger A <a@b> 1 +0000\n\nm\n" >tag-$kind
    entry 40000 $kind:$kind >dir-$kind
    entry 100644 $kind:$kind >file-$kind
done
stock init -q --bare to
tried() {
    packed "$@" >pack
    for option in --fsck-objects --strict; do
        git -C to index-pack --stdin $option <pack
        rm -rf to/objects/??  to/objects/pack/*
    done
    git -C to unpack-objects -q --strict <pack
    rm -rf to/objects/??  to/objects/pack/*
}
all='blob:blob tree:tree commit:commit tag:tag'
for wrong in commit:parent-blob commit:parent-tree commit:tree-blob tag:tag-blob tag:tag-tree tree:dir-blob tree:file-tree; do
    tried $wrong $all
    tried $all $wrong
done

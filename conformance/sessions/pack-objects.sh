# Packs of what revisions reach.
# masks: progress

## a pack in a folder, of everything
# in: sha1 sha256
history 20
git pack-objects --all -q out </dev/null >/dev/null
git verify-pack -v out-*.idx | grep -E '^[0-9a-f]{40,}' | cut -d' ' -f1,2 | sort
ls out-* | sed 's/-[0-9a-f]*/-ID/'

## revisions on standard input
history 20
packed HEAD ^HEAD~5

## ranges on standard input
# in: sha1 sha256
# exits: 128 128 128 128 128 128 128 128 128
history 6
stock checkout -q -b side HEAD~2
commit one
commit two
stock checkout -q main
stock merge -q -m merged side
stock tag -a -m tagged v1 side
for range in HEAD^1...side ...side HEAD... ... .. HEAD...side~1 v1...HEAD^ HEAD^@ ^HEAD^@ HEAD^! ^HEAD^! side^! HEAD~5^! HEAD^- HEAD^-1 HEAD^-2 v1^@ v1^! ':/merged..HEAD' 'side:..HEAD'; do
    packed "$range"
done
printf '%s\n' --not HEAD^1...side --not HEAD | git pack-objects --revs -q out >/dev/null
printf '%s\n' HEAD --not HEAD^! | git pack-objects --revs -q out >/dev/null
git verify-pack -v out-*.idx | grep -E '^[0-9a-f]{40}' | cut -d' ' -f1,2 | sort
for range in none...HEAD HEAD^{tree}...HEAD HEAD^-3 HEAD^-0 HEAD^-x 'HEAD^{tree}^@' none^! HEAD^@^ HEAD....side; do
    echo "$range" | git pack-objects --revs -q --stdout
done

## ranges where the history is cut off
# exits: 128 128 128
history 6
stock clone -q --depth=2 "file://$PWD" shallow
cd shallow
for range in HEAD~1^@ HEAD~1^! HEAD^- HEAD~1...HEAD; do
    packed "$range"
done
echo HEAD~2 | git pack-objects --revs -q --stdout
echo HEAD~1^ | git pack-objects --revs -q --stdout
cd ..
rm -rf shallow
# The same if what is cut off is there.
stock rev-parse HEAD~1 >.git/shallow
packed ':/Change 5'
packed HEAD~1^@
echo ':/Change 2' | git pack-objects --revs -q --stdout

## names on standard input
history 5
git rev-list --objects HEAD~3 | cut -d' ' -f1 | git pack-objects -q out >/dev/null
git verify-pack -v out-*.idx | grep -E '^[0-9a-f]{40}' | cut -d' ' -f1,2 | sort

## thin
history 10
printf 'HEAD\n^HEAD~2\n' | git pack-objects --revs --thin -q --stdout >thin.pack
git init -q --bare other.git
stock push -q other.git HEAD~2:refs/heads/main
git -C other.git index-pack --fix-thin --stdin <thin.pack | sed 's/[0-9a-f]\{40\}/ID/'

## thin, which means revisions
history 4
ids=$(stock rev-parse HEAD ^HEAD~2)
printf '%s\n' $ids | git pack-objects --thin -q --stdout >thin.pack
stock init -q --bare other.git
stock push -q other.git HEAD~2:refs/heads/main
git -C other.git index-pack --fix-thin --stdin <thin.pack | sed 's/[0-9a-f]\{40\}/ID/'

## bundles
history 6
git bundle create -q part.bundle HEAD~2..main
git bundle create -q some.bundle --all --filter=blob:none
git bundle create -q all.bundle --all
git bundle list-heads part.bundle
git clone -q --bare all.bundle all.git
git -C all.git rev-list --objects --all | wc -l
git init -q --bare part.git
git push -q part.git HEAD~2:refs/heads/main
git -C part.git fetch -q ../part.bundle main:new
git -C part.git rev-list --objects --all | wc -l
rm ./*.bundle

## what the receiver has may have gaps
# state: no-fsck no-objects
repository
for name in one two three; do commit $name; done
rm ".git/objects/$(stock rev-parse HEAD~2 | sed 's|..|&/|')"
printf 'HEAD\n^HEAD~1\n' | git pack-objects --revs -q out >/dev/null
git show-index <"$(echo out-*.idx)" | cut -d' ' -f2

## only what is not packed
history 5
git repack -adq
commit new
git pack-objects --unpacked --all -q out </dev/null >/dev/null
git verify-pack -v out-*.idx | grep -E '^[0-9a-f]{40}' | cut -d' ' -f1,2 | sort
git pack-objects --incremental --all -q more </dev/null | wc -l

## what filters leave out
history 8
for filter in blob:none blob:limit=10 blob:limit=1k tree:0 tree:1 tree:2 object:type=tree combine:blob:none+tree:1 combine:tree:2+blob:limit=20; do
    echo "$filter"
    printf 'HEAD\n' | git pack-objects --revs -q --stdout --filter="$filter" >p.pack
    git index-pack p.pack >/dev/null
    git show-index <p.idx | cut -d' ' -f2 | sort
done

## a filter of sparse paths
history 8
printf 'dir1/\n' >patterns
blob=$(git hash-object -w patterns)
printf 'HEAD\n' | git pack-objects --revs -q --stdout --filter=sparse:oid="$blob" >p.pack
git index-pack p.pack >/dev/null
git show-index <p.idx | cut -d' ' -f2 | sort
stock add patterns
stock commit -qm patterns
printf 'HEAD\n' | git pack-objects --revs -q --stdout --filter=sparse:oid=main:patterns >p2.pack
git index-pack p2.pack >/dev/null
git show-index <p2.idx | cut -d' ' -f2 | sort

## filters that there are not
# exits: 128 128 128 128 128 128
history 1
for filter in nothing blob:limit=x tree:x sparse:path=a combine: object:type=x; do
    echo HEAD | git pack-objects --revs --stdout --filter="$filter"
done

## options that do not go together
# exits: 128 128 128
# masks: usage
history 1
git pack-objects --stdout --filter=blob:none --keep-unreachable --revs </dev/null >/dev/null
git pack-objects --thin out </dev/null >/dev/null
git pack-objects --stdin-packs --revs --stdout </dev/null >/dev/null
git pack-objects --cruft --stdout </dev/null >/dev/null
git pack-objects --keep-unreachable --unpack-unreachable --revs out </dev/null >/dev/null

## lines that make no sense
# exits: 128 128 128 128
history 1
echo nonsense | git pack-objects --stdout
echo nonsense | git pack-objects --revs --stdout
echo 1111111111111111111111111111111111111111 | git pack-objects --revs --stdout
echo nonsense | git pack-objects --stdin-packs out

## an object that is missing
# exits: 128
history 1
echo 1111111111111111111111111111111111111111 | git pack-objects --stdout

## arguments that are too few or too many
# masks: usage
# exits: 129 129 129
history 1
git pack-objects </dev/null
git pack-objects --bogus out </dev/null
git pack-objects --stdout out </dev/null

## progress
# masks: 
history 10
printf 'HEAD\n' | git pack-objects --revs --stdout -q >/dev/null
printf 'HEAD\n' | git pack-objects --revs out 2>err >/dev/null
grep -c . err

## progress, unless quiet is taken back
history 3
git pack-objects --all --stdout --no-quiet </dev/null 2>err >/dev/null
grep -c '^Total' err
git bundle create --quiet --no-quiet a.bundle --all 2>err
grep -c '^Total' err
rm err a.bundle

## packs named on standard input
# masks: progress
history 4
git repack -dq
commit one
git repack -dq
ls .git/objects/pack/*.pack | xargs -n 1 basename | git pack-objects --stdin-packs -q out >/dev/null
git verify-pack -v out-*.idx | grep -E '^[0-9a-f]{40}' | cut -d' ' -f1,2 | sort

## packs named on standard input, and loose objects
history 4
for name in one two; do
    commit $name
    git pack-objects --incremental --all -q ".git/objects/pack/$name" </dev/null >/dev/null
done
commit three
(cd .git/objects/pack && ls one-*.pack && ls two-*.pack | sed 's/^/^/') >packs
git pack-objects --stdin-packs --unpacked -q out <packs >/dev/null
git show-index <"$(echo out-*.idx)" | cut -d' ' -f2
rm packs

## packs named on standard input, and what they reach
# needs git: 2.55
history 2
for name in one two three four; do
    commit $name
    git pack-objects --incremental --all -q ".git/objects/pack/$name" </dev/null >/dev/null
done
stock prune-packed
commit five
name() { (cd .git/objects/pack && ls "$1"-*.pack); }
pack() { git pack-objects --stdin-packs=follow "$@" -q out | while read -r name; do git show-index <"out-$name.idx" | cut -d' ' -f2; done; }
{ name four; echo "^$(name three)"; } | pack
{ name four; echo "^$(name two)"; echo "!$(name three)"; } | pack
echo "^$(name four)" | pack --unpacked

## packs named on standard input, in ways that make no sense
# exits: 128 128 128
# needs git: 2.55
history 2
git repack -adq
git pack-objects --stdin-packs=more --stdout </dev/null
git pack-objects --stdin-packs --filter=blob:none --stdout </dev/null
echo '!x.pack' | git pack-objects --stdin-packs --stdout

## packs of a promisor named on standard input
# exits: 128
# needs git: 2.55
# masks: words
history 2
git repack -adq
pack=$(cd .git/objects/pack && ls pack-*.pack)
: >".git/objects/pack/${pack%.pack}.promisor"
echo "$pack" | git pack-objects --stdin-packs --exclude-promisor-objects --stdout
echo "$pack" | git pack-objects --stdin-packs -q out >/dev/null

## an index with long offsets
# exits: 128 128
history 4
git pack-objects --all -q --index-version=2,0x40 out </dev/null >/dev/null
cksum <"$(echo out-*.idx)" | cut -d' ' -f2
git verify-pack out-*.idx
git pack-objects --all -q --index-version=2,x out </dev/null
git pack-objects --all -q --index-version=3 out </dev/null

## indexes of version 0, which is 1
history 3
git pack-objects --all -q --index-version=0 out </dev/null >/dev/null
cksum <"$(echo out-*.idx)" | cut -d' ' -f2
rm out-*
git -c pack.indexVersion=0 pack-objects --all -q out </dev/null >/dev/null
cksum <"$(echo out-*.idx)" | cut -d' ' -f2
git index-pack --index-version=0 -o some.idx out-*.pack >/dev/null
cksum <some.idx | cut -d' ' -f2

## versions of the hash of names
# exits: 128 128
# needs git: 2.49
history 4
for version in -1 1 2 0 3; do
    git pack-objects --all --stdout -q --name-hash-version=$version </dev/null >/dev/null
done

## with tags that point at what is packed
history 4
stock tag -a -m note v1 HEAD~1
printf 'HEAD\n' | git pack-objects --revs --include-tag -q out >/dev/null
git verify-pack -v out-*.idx | grep -E '^[0-9a-f]{40}' | cut -d' ' -f1,2 | sort

## values of numbers
# exits: 129 128 128
# masks: usage
history 3
echo HEAD | git pack-objects --revs --stdout --depth
echo HEAD | git pack-objects --revs --stdout --compression=10
echo HEAD | git pack-objects --revs --stdout --index-version=9

## small packs
history 20
git pack-objects --all -q --max-pack-size=1m out </dev/null | wc -l

## what has moved is sent again, or not
repository
mkdir one two
for file in one/a one/b two/a file; do echo "$file" >"$file"; done
stock add .
stock commit -q -m first
mkdir sub
stock mv one sub/one
stock mv file sub/file
stock commit -q -m moved
listed() {
    git index-pack -o p.idx p.pack >/dev/null
    stock show-index <p.idx | cut -d' ' -f2 | sort
    rm -f p.*
}
for option in -q --sparse --no-sparse '--no-sparse --sparse' '--sparse --no-sparse'; do
    echo "$option"
    printf 'HEAD\n^HEAD~1\n' | git pack-objects -q --revs --stdout $option >p.pack
    listed
done
printf 'HEAD\n^HEAD~1\n' | git -c pack.useSparse=false pack-objects -q --revs --stdout >p.pack
listed
printf 'HEAD\n^HEAD~1\n' | git -c pack.useSparse=false pack-objects -q --revs --thin --sparse --stdout >p.pack
stock show-index </dev/null 2>/dev/null
stock index-pack --fix-thin --stdin <p.pack >/dev/null

## objects that nobody promised
# state: no-fsck no-files no-objects
# masks: words
# exits: 128
history 3
stock repack -adq
mv .git/objects/pack/*.pack p
rm -f .git/objects/pack/*
stock unpack-objects -q <p
rm -f p
blob=$(stock rev-parse HEAD~1:dir2/file2)
rm -f .git/objects/$(echo $blob | cut -c1-2)/$(echo $blob | cut -c3-)
git pack-objects -q --all --exclude-promisor-objects out </dev/null

## unreachable objects beside those that are not packed
history 4
commit one
stock repack -q
stock tag one
commit two
stock reset -q --hard HEAD~2
stock tag -d one >/dev/null
git pack-objects -q --unpacked --keep-unreachable out </dev/null >/dev/null
git show-index <$(ls out-*.idx) | cut -d' ' -f2 | sort
rm out-*

## lines with NULs and carriage returns
# exits: 128
history 3
stock repack -adq
commit one
stock repack -dq
cd .git/objects/pack
listed() {
    printf "$1" | git pack-objects -q --stdout "$2" >p.pack
    git index-pack p.pack >/dev/null 2>&1
    git show-index <p.idx | cut -d' ' -f2 | sort
    rm -f p.*
}
for pack in pack-*.pack; do
    for line in "$pack\r\n" "$pack" "$pack\000\n" "$pack\000x\n\r\n"; do
        listed "$line" --stdin-packs
    done
done
id=$(stock rev-parse HEAD)
for line in "$id\000x\n^HEAD~1\000\n" 'HEAD\n--not\000x\nHEAD~1\n' 'HEAD\n\000x\nnothing\n'; do
    listed "$line" --revs
done
listed "$id\000x\n" --no-revs
printf 'HEAD\r\n' | git pack-objects --revs --stdout

## filters with empty parts
# needs git: 2.55
# exits: 128
history 3
for filter in combine:+ combine:blob:none+ combine:+blob:none combine:blob:none++tree:2 combine:combine:blob:none%2b+tree:1; do
    echo HEAD | git pack-objects --revs -q --stdout --filter="$filter" >p.pack
    git index-pack p.pack >/dev/null
    git show-index <p.idx | cut -d' ' -f2 | sort
    rm p.*
done
echo HEAD | git pack-objects --revs --stdout --filter=auto

## deltas of what the receiver has
repository
for number in 1 2 3 4 5; do
    { seq 1 400 | sed 's/$/ and text of a line/'; echo $number; } >file
    stock add file
    stock commit -q -m $number
    tree=$(stock rev-parse HEAD^{tree})
    { test -z "$before" || echo "-$before"; echo "$tree"; echo "$(stock rev-parse :file) file"; } >list
    git pack-objects --stdout -q <list >p.pack
    before=$tree
    pack=$(stock index-pack --stdin --fix-thin <p.pack)
    stock verify-pack -s ".git/objects/pack/pack-${pack#pack?}"
done
rm -f p.pack

## objects that the receiver has
history 10
stock tag -a -m tag v1
# listed LINE...: which objects of these lines are packed; ids are names.
listed() {
    echo "$*"
    for line; do
        name=${line%% *}
        edge=${name%%[!-]*}
        path=
        [ "$name" = "$line" ] || path=" ${line#* }"
        echo "$edge$(stock rev-parse "${name#-}")$path"
    done | git pack-objects -q --stdout $window >p.pack
    git index-pack p.pack >/dev/null
    git show-index <p.idx | cut -d' ' -f2 | sort
    rm -f p.*
}
window=
listed -HEAD HEAD^{tree}
listed HEAD^{tree} -HEAD
listed HEAD^{tree} -HEAD 'HEAD:dir1/file0 x' HEAD
listed -HEAD~1 HEAD^{tree} HEAD~1^{tree} HEAD
listed -HEAD 'HEAD:dir1 dir1' 'HEAD:dir1/file0 dir1/file0' 'HEAD:dir2 x'
listed -HEAD 'HEAD:dir2 dir1' 'HEAD:dir1 x'
listed -HEAD 'HEAD:dir1 dir1/' 'HEAD:dir1/file0 /dir1/file0'
listed -v1 HEAD^{tree} HEAD
listed -HEAD:dir1 'HEAD:dir1/file0 file0'
listed -HEAD:dir1/file0 'HEAD:dir1/file0 file0'
listed -HEAD~1 HEAD^{tree} -HEAD HEAD~1^{tree}
window=--window=0
listed -HEAD HEAD^{tree}
window=--window=1
listed -HEAD -HEAD~1 HEAD^{tree} HEAD~1^{tree}

## planned again without a damaged multi-pack-index
# differs: git ends
# exits: 128 128
# state: no-fsck no-objects
history 3
stock repack -adq
stock multi-pack-index write
index=.git/objects/pack/multi-pack-index
number=$(stock show-index <"$(ls .git/objects/pack/*.idx)" | cut -d' ' -f2 | grep -n "$(stock rev-parse HEAD~1)")
chmod u+w $index
printf x | dd of=$index bs=1 seek=$(($(bytes $index 40 8) + 20 * ${number%%:*} - 1)) conv=notrunc 2>/dev/null
echo HEAD | git pack-objects --revs -q --stdout >p.pack
git index-pack p.pack >/dev/null && git show-index <p.idx | wc -l
rm -f p.*

## revisions behind lines that cut history off
# exits: 128 128 128 128 128 128 128 128 128 128
history 6
stock branch old HEAD~1
# chosen LINE...: which commits are packed.
chosen() {
    echo "$*"
    printf '%s\n' "$@" | git pack-objects --revs -q --stdout >p.pack
    git index-pack p.pack >/dev/null && git show-index <p.idx | wc -l
    rm -f p.*
}
head=$(stock rev-parse HEAD)
chosen "--shallow $head" HEAD
chosen "--shallow $head" 'HEAD^' 2>&1
chosen "--shallow $head" HEAD ^HEAD~2 2>&1
chosen 'HEAD^' "--shallow $head"
chosen HEAD "--shallow $head" ^HEAD~3 2>&1
chosen "--shallow $(stock rev-parse HEAD~2)" HEAD HEAD~2
chosen "--shallow $head" 'HEAD^{/Change 1}' 2>&1
chosen "--shallow $head" "HEAD^!"
chosen '--shallow HEAD' HEAD 2>&1

## packs by a walk of paths
# needs git: 2.55
history 20
stock tag -a -m note v1 HEAD~3
stock tag tree HEAD~2:dir1
sparse=$(printf '/*\n!/*/\n/dir1/\n' | stock hash-object -w --stdin)
listed() {
    echo "$*"
    git index-pack p.pack >/dev/null 2>&1 || stock index-pack --fix-thin -o p.idx p.pack >/dev/null 2>&1
    git show-index <p.idx | cut -d' ' -f2 | sort
    rm -f p.*
}
for bitmap in '' b; do
    git repack -adq$bitmap
    for form in --all '--all --no-reuse-delta' '--all --filter=blob:none' "--all --filter=sparse:oid=$sparse" '--all --filter=tree:1'; do
        git pack-objects --path-walk -q --stdout $form </dev/null >p.pack
        listed $form
    done
    for form in --revs '--revs --sparse' '--revs --include-tag'; do
        printf 'HEAD\n^HEAD~4\n' | git pack-objects --path-walk -q --stdout $form >p.pack
        listed $form
    done
    printf 'HEAD\n^HEAD~4\n' | git pack-objects --path-walk --revs --thin -q --stdout >p.pack
    stock index-pack --fix-thin --stdin <p.pack >/dev/null
    rm p.pack
    stock rev-list --objects HEAD~3 | git pack-objects --path-walk -q --stdout >p.pack
    listed names
    git -c pack.usePathWalk=true pack-objects --all -q --stdout </dev/null >p.pack
    listed pack.usePathWalk
done
git repack -adfq --path-walk

## cruft, packs and islands
# needs git: 2.55
# exits: 128
history 2
git pack-objects --stdin-packs --cruft out </dev/null
git pack-objects --all -q --delta-islands --path-walk --stdout </dev/null >/dev/null

## versions of an index that are none
# exits: 128 128 128 128 128 128 128 128
history 1
for version in 1, 2, 10 10, , 2,0x10, junk, -1; do
    git pack-objects -q --all --index-version=$version out </dev/null
done
git pack-objects -q --all --index-version=02,0x10 --stdout </dev/null | git unpack-objects -n -q

## a commit is missing
# needs git: 2.55
# exits: 128 128 128 128
history 6
file=.git/objects/$(stock rev-parse HEAD~3 | sed 's,..,&/,')
rm -f "$file"
git pack-objects --all --stdout -q </dev/null
echo HEAD | git pack-objects --revs --stdout -q
git repack -aq
git clone -q --bare --no-local . to.git 2>&1 | grep '^remote: [ef]'

## objects that are damaged, in packs and alone
# needs git: 2.55
# exits: 128 128 128 128 128 128 128 128
# named ERRORS, without the directory, which ours gives in full
named() { sed 's,\(stored in\|from\) [^ ]*objects/,\1 ,'; }
told() {
    git pack-objects --all --stdout -q </dev/null 2>&1 >/dev/null | named
    git repack -adfq 2>&1 | named
}
history 6
stock repack -adq
pack=$(echo .git/objects/pack/*.pack)
chmod u+w "$pack"
cp "$pack" whole
for what in HEAD~2 HEAD~2^{tree}; do
    at=$(stock verify-pack -v "$pack" | grep "^$(stock rev-parse $what)" | awk '{print $5}')
    printf '\377\377\377\377' | dd of="$pack" bs=1 seek=$((at + 4)) conv=notrunc status=none
    told
    cp whole "$pack"
done
stock unpack-objects -q <whole
mv "$pack" whole
rm -f .git/objects/pack/*
stock unpack-objects -q <whole
file=.git/objects/$(stock rev-parse HEAD~2 | sed 's,..,&/,')
chmod u+w "$file"
cp "$file" good
echo junk >"$file"
told
cp good "$file"
truncate -s 30 "$file"
told
cp good "$file"

## what is promised and not fetched
# needs git: 2.55
# exits: any
partial 4 src
mkdir -p src/a/b
echo deep >src/a/b/c
stock -C src add a
stock -C src commit -q -m deep
# Of several that are missing, another may be named.
packs() {
    "$@" 2>&1 >p.pack | sed 's/fetch [0-9a-f]* from/fetch ... from/'
    stock index-pack p.pack 2>/dev/null >/dev/null && stock show-index <p.idx | cut -d' ' -f2 | sort
    rm -f p.pack p.idx
}
for filter in tree:0 tree:2 blob:none; do
    stock clone -q --bare --filter=$filter "file://$PWD/src" c
    for revision in HEAD HEAD:dir1/file1 HEAD:dir1 HEAD^{tree}; do
        id=$(stock -C src rev-parse $revision)
        for options in '' --missing=allow-promisor --missing=allow-any --exclude-promisor-objects '--revs' \
            '--revs --exclude-promisor-objects' '--exclude-promisor-objects --missing=allow-any'; do
            case "$filter $options" in tree*missing=allow*) [ $revision = HEAD:dir1/file1 ] || continue ;; esac
            echo "$filter $revision $options"
            echo $id | GIT_NO_LAZY_FETCH=1 packs git -C c pack-objects -q --stdout $options
            echo ^$id | GIT_NO_LAZY_FETCH=1 packs git -C c pack-objects -q --stdout --revs $options
        done
    done
    echo 1234567890123456789012345678901234567890 | GIT_NO_LAZY_FETCH=1 packs git -C c pack-objects -q --stdout
    for options in --missing=allow-promisor --missing=allow-any; do
        stock -C src rev-parse HEAD:a/b/c HEAD:dir1/file1 | packs git -C c pack-objects -q --stdout $options
    done
    rm -rf c
done
## combined filters of which one is about depth
# differs: git leaves out a tree that it finds too deep before it finds it near the root, but not with one filter alone
repository
mkdir tree
commit tree/file
mkdir -p deep/er
stock mv tree deep/er/tree
commit other
for filter in tree:2 combine:blob:none+tree:2 combine:tree:2+object:type=tree combine:tree:3+tree:2; do
    echo "$filter"
    echo HEAD | git pack-objects --revs -q --stdout --filter="$filter" >p.pack
    git index-pack p.pack >/dev/null
    git show-index <p.idx | cut -d' ' -f2 | sort
    rm p.*
done

## lists of a walk by path
# needs git: 2.55
# exits: 128 128 128
history 3
id=$(stock rev-parse HEAD)
# listed LINES OPTION...: the objects that are packed.
listed() {
    lines=$1
    shift
    echo "$*"
    printf '%b' "$lines" | git pack-objects -q --stdout "$@" >p.pack
    stock index-pack p.pack >/dev/null 2>&1 && git show-index <p.idx | cut -d' ' -f2 | sort
    rm -f p.*
}
listed "HEAD\n" --path-walk --thin
listed "--not\nHEAD\n" --path-walk --thin
listed "HEAD\n" --path-walk
listed "$id\n" --path-walk --thin
listed "$id\n" --thin
listed "HEAD\n" --path-walk --thin --revs
listed "HEAD\n" --path-walk --thin --unpacked
listed "HEAD\n" --no-path-walk --thin

## trees and blobs beside what the receiver has, with a bitmap
history 12
stock tag -a -m note v1 HEAD~3
stock repack -adqb
packed 'HEAD~2^{tree}' ^HEAD~4
packed 'HEAD^{tree}' ^HEAD^
packed HEAD:dir1 ^HEAD
packed HEAD:dir1/file1 ^HEAD~8
packed HEAD 'HEAD~7^{tree}' ^HEAD~3
packed v1 HEAD~11:dir1 ^HEAD~4
packed 'HEAD~2^{tree}' '^HEAD~4^{tree}'
commit new
packed HEAD:new HEAD:dir1 ^HEAD~4

## a pack with a bitmap is sorted by the first version of name hashes
# needs git: 2.55
# masks: pack-names
history 3
git pack-objects -q base --all --name-hash-version=2 --write-bitmap-index </dev/null >/dev/null
git pack-objects -q --stdout --all --name-hash-version=2 --write-bitmap-index </dev/null >pack
git repack -adqb --name-hash-version=2
git repack -adqb --write-midx --name-hash-version=2
rm -f base-* pack

## an object of more islands is the base of those of fewer
repository
grown() { seq 1 300 | sed "s/$/ and text of a line/"; echo $1; }
for name in root:1 one:12345 two:123456; do
    grown ${name#*:} >file
    stock add file
    stock commit -q -m ${name%:*}
    stock update-ref refs/heads/${name%:*} HEAD
    stock checkout -q --detach root
done
stock branch -q -D main
git -c 'pack.island=refs/heads/(.*)' repack -adfiq
for name in root one two; do
    stock rev-parse $name:file
done | stock cat-file --batch-check='%(objectsize) %(deltabase)'

## filters and versions of indexes that make no sense, before anything else
# exits: 128 128 128 128
history 1
stock rev-parse HEAD >list
git pack-objects --filter=zzz --stdout <list
git pack-objects --filter=tree:x -q ../p <list
git pack-objects --filter=zzz <list
git pack-objects --index-version=x <list
rm list

## what is promised is left out as far as possible
# needs git: 2.55
# exits: any
partial 4 src
stock clone -q --no-checkout --filter=blob:none "file://$PWD/src" c
cd c
stock config remote.origin.url "file://$PWD/nothing"
main=$(stock rev-parse HEAD)
stock tag -a -m promised local HEAD
stock tag -a -m nested nested local 2>/dev/null
tree=$(printf '100644 blob %s\tnew\n' $(echo new | stock hash-object -w --stdin) | stock mktree)
stock update-ref refs/heads/one $(stock commit-tree -m one -p HEAD "$tree")
stock update-ref refs/heads/two $(stock commit-tree -m two -p HEAD~1 -p one HEAD^{tree})
packs() {
    printf "$1" | git pack-objects -q --stdout --exclude-promisor-objects-best-effort $2 >../p.pack
    stock -C .. index-pack p.pack >/dev/null 2>&1 && stock show-index <../p.idx | cut -d' ' -f2 | sort
    rm -f ../p.pack ../p.idx
}
for revisions in HEAD one two nested one^{tree} HEAD^{tree} '^HEAD\ntwo' '^two\none' "two\n^HEAD~1" nope; do
    for options in '' --filter=tree:0 --unpacked --include-tag; do
        echo "$revisions $options"
        packs "$revisions\n" "$options"
    done
done
packs '' --all
packs one --exclude-promisor-objects
packs one --stdin-packs
packs one --cruft
cd ../src
packs HEAD

## an index that is damaged matters where its objects are asked for
# exits: 128 128 128
# masks: words
history 3
commit one
stock repack -dq
echo nonsense >.git/index
git pack-objects --all --stdout -q </dev/null | wc -c >size
git pack-objects --all --reflog --stdout -q </dev/null | wc -c >size
git pack-objects --all --indexed-objects --stdout -q </dev/null
git repack -q
git repack -adq
git repack -dq --geometric=2
git multi-pack-index write --bitmap
rm size
stock read-tree HEAD

## a trace tells of bitmaps and of the index
# needs git: 2.50
history 5
stock repack -adbq
echo HEAD | GIT_TRACE2_EVENT="$PWD/trace" git pack-objects --revs --stdout -q | wc -c >size
grep -o '"key":"\(opened bitmap file\|bitmap/hits\|bitmap/misses\|pseudo_merges_satisfied\)"' trace | sort -u
rm trace
GIT_TRACE2_EVENT="$PWD/trace" git pack-objects --all --indexed-objects --stdout -q </dev/null | wc -c >size
grep -o '"label":"do_read_index"' trace | uniq
rm trace
GIT_TRACE2_EVENT="$PWD/trace" git verify-pack .git/objects/pack/*.idx
grep -o '"argv":\["git","index-pack","--verify"' trace
grep -o '"event":"child_exit"' trace
rm trace size

## what a trace says of the use of bitmaps
# needs git: 2.50
told() {
    printf '%s\n' "$*"
    printf '%s\n' "$@" | GIT_TRACE2_EVENT="$PWD/../trace" git pack-objects --revs --stdout -q | wc -c >../size
    grep -o '"category":"\(pack-bitmap\|bitmap\)",.*' ../trace | grep -v 'opened\|cascades\|roots_with_'
    rm ../trace ../size
}
history 300
stock branch side HEAD~2
stock branch old HEAD~290
stock tag -a -m tag v1 side
stock -c pack.preferBitmapTips=refs/heads repack -adbq
ask() {
    told HEAD
    told HEAD side
    told side v1
    told HEAD '^old'
    told 'HEAD^{tree}' HEAD
    told v1 '^old'
}
ask
commit one
commit two
commit three
ask
stock repack -dq
ask

## ranges with ends that are missing
# exits: 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128
history 3
missing=1111111111111111111111111111111111111111
for range in "HEAD..$missing" "$missing..HEAD" "HEAD...$missing" "..$missing" "^$missing" "$missing~1..HEAD"; do
    for option in --missing=error --missing=allow-any --exclude-promisor-objects; do
        printf '%s\nHEAD\n' "$range" | git pack-objects -q --revs --stdout $option | wc -c
    done
done

## filters beside a blob that cannot be read
history 3
blob=$(stock rev-parse HEAD:dir1/file1)
blob=.git/objects/${blob%"${blob#??}"}/${blob#??}
chmod u+w "$blob"
echo junk >"$blob"
for filter in blob:none tree:2 object:type=tree sparse:oid=HEAD:dir0/file3; do
    git pack-objects -q --all --stdout --filter=$filter </dev/null >pack
    stock index-pack -o index pack >/dev/null && stock show-index <index | cut -d' ' -f2 | sort
    rm -f index pack*
done

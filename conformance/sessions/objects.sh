# hash-object, write-tree and commit-tree.

## hash-object names content
# in: sha1 sha256
repository
echo text >a
printf 'more' >b
git hash-object a b
git hash-object --stdin <a
git hash-object -w a
git hash-object -w --stdin b <a
git cat-file -t "$(git hash-object a)"

## hash-object, names on standard input
repository
echo 1 >a
echo 2 >b
printf 'a\nb\n' | git hash-object --stdin-paths
printf 'a\n' | git hash-object -w --stdin-paths

## hash-object with types
# exits: 128 128 128
repository
tree=$(stock mktree </dev/null)
printf 'tree %s\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000\n\nx\n' "$tree" | git hash-object -t commit -w --stdin
echo nonsense | git hash-object -t commit --stdin
echo nonsense | git hash-object -t tree --stdin
echo nonsense | git hash-object -t bogus --stdin

## hash-object --literally
# exits: 128
repository
echo nonsense | git hash-object --literally -t commit --stdin
echo nonsense | git hash-object -t tag --stdin

## hash-object --literally, and a type that there is not
# needs git: 2.55
# exits: 128 128
repository
echo nonsense | git hash-object --literally -t bogus --stdin
echo nonsense | git hash-object --literally -w -t bogus --stdin

## a threshold for large files that is no size
# needs git: 2.55
# exits: 128 128
repository
echo 1 >a
git -c core.bigFileThreshold=-1 hash-object a
git -c core.bigFileThreshold=-1 add a

## the name that a conditional include of the user sets
# in: files reftable
repository
printf '[user]\n\tname = Somebody Else\n' >else
unset GIT_AUTHOR_NAME GIT_COMMITTER_NAME
tree=$(git write-tree)
for condition in 'gitdir:**/.git' 'onbranch:main' 'gitdir:/nowhere/' 'onbranch:other'; do
    printf '[user]\n\tname = Me\n[includeIf "%s"]\n\tpath = "%s"\n' "$condition" "$PWD/else" >.git/user-config
    commit=$(GIT_CONFIG_GLOBAL=.git/user-config git commit-tree -m Message "$tree")
    stock cat-file -p "$commit"
    commit=$(git -c user.name=Me -c "includeIf.$condition.path=$PWD/else" commit-tree -m Message "$tree")
    stock cat-file -p "$commit"
done
rm .git/user-config

## hash-object through filters
# masks: usage
# exits: 129
repository
echo '*.txt text' >.gitattributes
printf 'a\r\n' >a.txt
cp a.txt a.bin
git hash-object a.txt a.bin
git hash-object --no-filters a.txt
git hash-object --path=x.txt a.bin
git hash-object --stdin --path=x.txt <a.bin
git hash-object --no-filters --path=x a.bin

## hash-object without a repository
# exits: 128
echo text >a
git hash-object a
git hash-object -w a

## hash-object and what is not there
# exits: 128 128
repository
git hash-object nothing
echo nothing | git hash-object --stdin-paths

## hash-object, options that do not go together
# masks: usage
# exits: 129 129 129 129
repository
echo 1 >a
git hash-object --stdin --stdin </dev/null
git hash-object --stdin --stdin-paths </dev/null
git hash-object --stdin-paths a </dev/null
git hash-object --bogus

## write-tree
# in: sha1 sha256
repository
mkdir -p a/b
echo 1 >a/b/one
echo 2 >a/two
echo 3 >three
git add .
git write-tree
git write-tree --prefix=a/
git write-tree --prefix=a/b
git ls-tree -r -t "$(git write-tree)"

## write-tree of a missing folder where nothing is
# exits: 128
# state: no-objects no-fsck
repository
git write-tree --prefix=nothing/

## write-tree of a missing folder
# differs: no tree is stored when the command fails
# exits: 128
repository
echo 1 >a
git add a
git write-tree --prefix=nothing/

## write-tree with objects missing
# exits: 128
# state: no-fsck
repository
git update-index --add --cacheinfo 100644,1111111111111111111111111111111111111111,a
git write-tree
git write-tree --missing-ok

## write-tree of conflicts
# exits: 128
# state: no-work no-fsck
repository
blob=$(echo text | git hash-object -w --stdin)
printf '100644 %s 1\ta\n100644 %s 2\ta\n' "$blob" "$blob" | git update-index --index-info
git write-tree

## write-tree of nothing
repository
git write-tree
git write-tree --prefix=''

## write-tree, options that there are not
# masks: usage
# exits: 129
repository
git write-tree --bogus

## commit-tree
# in: sha1 sha256
repository
tree=$(git write-tree)
one=$(git commit-tree -m first "$tree")
two=$(echo second | git commit-tree "$tree" -p "$one")
git cat-file -p "$one"
git cat-file -p "$two"
git commit-tree -p "$one" -p "$two" -m merge -m 'and more' "$tree"

## commit-tree with messages of files
repository
tree=$(git write-tree)
printf 'from a file' >message
git commit-tree -F message "$tree"
git cat-file -p "$(git commit-tree -m one -F message -m two "$tree")"
echo input | git commit-tree -F - "$tree"

## commit-tree with one parent twice
repository
tree=$(git write-tree)
one=$(git commit-tree -m first "$tree")
git commit-tree -p "$one" -p "$one" -m second "$tree"

## commit-tree of what is no tree
# exits: 128 128 128 128
history 1
git commit-tree -m x HEAD:dir1/file1
git commit-tree -m x nothing
git commit-tree -p nothing -m x HEAD^{tree}
git commit-tree -p HEAD^{tree} -m x HEAD^{tree}

## commit-tree takes a commit for its tree
# exits: 128
history 1
git commit-tree -m x HEAD

## commit-tree with odd words
repository
tree=$(git write-tree)
printf 'no newline' | git commit-tree "$tree"
git commit-tree -m '' "$tree"
printf '\n\n  leading and trailing  \n\n\n' | git commit-tree "$tree"
git -c i18n.commitEncoding=ISO-8859-1 commit-tree -m x "$tree"
printf '\344\n' | git -c i18n.commitEncoding=UTF-8 commit-tree "$tree"

## commit-tree and names
# exits: 128 128
repository
tree=$(git write-tree)
GIT_AUTHOR_NAME='  .A <B>,  ' git commit-tree -m x "$tree"
GIT_AUTHOR_DATE='2005-04-07T22:13:13' git commit-tree -m x "$tree"
GIT_AUTHOR_DATE='@0 +0100' git commit-tree -m x "$tree"
GIT_AUTHOR_DATE=nonsense git commit-tree -m x "$tree"
GIT_COMMITTER_NAME='<>' git commit-tree -m x "$tree"

## commit-tree, arguments that are too few or too many
# exits: 128 129
# masks: usage
history 1
git commit-tree HEAD^{tree} HEAD^{tree}
git commit-tree --bogus HEAD^{tree}

## hash-object and commit-tree below the top
# exits: 128 128 128
history 3
echo top >same
mkdir -p sub
echo below >sub/same
printf 'x\r\n' >sub/x.c
echo '*.c text' >sub/.gitattributes
cd sub
git hash-object same
git hash-object ../same "$PWD/x.c" x.c
printf 'same\nsub/same\nsub/x.c\n' | git hash-object --stdin-paths
printf 'x.c\n' | git hash-object --stdin-paths
git hash-object nothing
git hash-object --path=x.c same
git commit-tree -F same HEAD^{tree}
git commit-tree -F x.c HEAD^{tree}
git commit-tree -m '-m' HEAD^{tree}

## commit-tree looks at parents and files in the order in which they are named
# exits: 128 128 128 128 128 128
history 1
for options in '-F none -p none' '-p none -F none' '-p HEAD^{tree} -F none' '-F none -p HEAD^{tree}' '-F none -m x' '-m x -F none'; do
    git commit-tree HEAD^{tree} $options
done

## commit-tree of nothing
# needs git: 2.55
# exits: 128
history 1
git commit-tree

## a value may begin with a dash
# state: no-logs
# exits: 128
history 2
echo new >new
git stash push -u -m -q
git stash list
git update-ref -m --no-deref refs/heads/x HEAD
git symbolic-ref -m -d refs/heads/s refs/heads/x
git commit-tree -m -p HEAD^{tree}
git hash-object -t -w dir1/file1

## what cannot be hashed
# exits: 128 128 128 128 128
repository
mkdir dir
git hash-object dir
git hash-object -w dir
git hash-object --no-filters dir
git hash-object --path=name dir
git hash-object -t nonsense
git hash-object -t nonsense --stdin </dev/null

## abbreviations of several objects
# exits: 128 128 128 128 128 128 129 129 128 128 1 128 128 128 128
history 1
person='A U Thor <author@example.com> 1112912113 -0700'
stock mktree </dev/null >/dev/null
made=$(printf 'tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor %s\ncommitter %s\n\nfirst line\nsecond line\n\nbody\n' "$person" "$person" |
    stock hash-object -w -t commit --stdin)
blob=$(echo blob 142857 | stock hash-object -w --stdin)
printf '100644 blob %s\tfile528\n' "$blob" | stock mktree
printf 'object %s\ntype commit\ntag v13776\ntagger %s\n\nm\n' "$made" "$person" | stock hash-object -w -t tag --stdin
git update-ref refs/heads/x 6830
git update-ref refs/heads/x '6830^{commit}'
git update-ref refs/heads/x 6830~0
git update-ref refs/heads/x '6830^{tag}'
git update-ref refs/heads/x 6830:file
git commit-tree '6830^{tree}' -m x
git for-each-ref --contains 6830
git for-each-ref --points-at 6830
git for-each-ref --merged 6830
echo 6830 | git pack-objects --revs -q --stdout
git stash apply 6830
git commit-tree 6830 -p 6830 -m x
for text in 'like 265' 'like 1019'; do
    echo "$text" | stock hash-object -w --stdin
done
git commit-tree 21df3c -m x
git -c core.abbrev=12 update-ref refs/heads/x 21df3c
git commit-tree HEAD^{tree} -p 21df3c -m x
git update-ref refs/heads/x 21df3c^0
git update-ref refs/heads/6830 HEAD
git update-ref refs/heads/x 6830

## a commit that is to be signed
# exits: 129 128
history 1
stock config gpg.format ssh
cat >.git/sign <<'END'
#!/bin/sh
for file; do :; done
{ echo -----BEGIN SSH SIGNATURE-----; echo YQ==; echo -----END SSH SIGNATURE-----; } >"$file.sig"
END
chmod +x .git/sign
stock config gpg.ssh.program "$PWD/.git/sign"
stock config user.signingKey "$PWD/.git/sign"
git cat-file commit $(git commit-tree -S -m Signed HEAD^{tree})
git cat-file commit $(git commit-tree --gpg-sign=$PWD/.git/sign -m Signed HEAD^{tree})
git cat-file commit $(git commit-tree -S --no-gpg-sign -m Unsigned HEAD^{tree})
git commit-tree -x HEAD^{tree} 2>/dev/null
git commit-tree -S -m Nothing nothing

## prefixes of trees with several slashes
# exits: 128 128 128 128
repository
mkdir -p d/s
echo 1 >d/s/a
stock add d
for prefix in d// d//s d/s/// '' /d / d/s/a// ./d; do
    git write-tree --prefix="$prefix"
done

## names of files in lines of other systems
# exits: 128 128
repository
echo 1 >a
printf 'a\r\n"a"\r\na\n' | git hash-object --stdin-paths
printf 'a\r' | git hash-object --stdin-paths
printf 'a\r\r\n' | git hash-object --stdin-paths

## unpack-objects of a large file, synced in each way
seq 1 200000 >big
repository from; mv big from; cd from; stock add big; tick; stock commit -q -m one; cd ..
echo HEAD | stock -C from pack-objects --revs --stdout -q >pack
for setting in core.fsyncMethod=fsync core.fsyncMethod=batch core.bigFileThreshold=64k; do
    stock init -q --bare to.git
    git -C to.git -c $setting -c core.fsync=all unpack-objects -q <pack
    stock -C to.git cat-file --batch-all-objects --batch-check
    rm -rf to.git
done

## wrong settings of indexes, which new objects do not need
# in: sha1 sha256
# exits: 1 1 1
repository
seq 1 5000 >file
for setting in pack.indexVersion=3 pack.indexVersion=junk pack.writeReverseIndex=junk; do
    git -c "$setting" hash-object -w file
    git -c "$setting" add file
    echo "$setting" | git -c "$setting" -c core.bigFileThreshold=1 hash-object -w --stdin
    git -c "$setting" write-tree
done
stock commit -q -m one
stock repack -adq
git -c pack.indexVersion=3 verify-pack .git/objects/pack/*.idx
git -c pack.indexVersion=junk verify-pack -s .git/objects/pack/*.idx | sed 's/pack-[0-9a-f]*/pack-ID/'
git -c pack.writeReverseIndex=junk verify-pack .git/objects/pack/*.idx
git -c pack.indexVersion=3 unpack-objects -q <"$(ls .git/objects/pack/*.pack)"

## bytes behind the end of a loose object
# in: sha1 sha256
# exits: 128 128 128 128 128 128 128 128 128 128 128 128 128
repository
# told COMMAND...: what it says, without the paths of files, which git shows from where it is.
told() {
    echo "$*"
    "$@" 2>&1 </dev/null | sed 's/stored in [^)]*objects/stored in objects/'
}
commit one
commit two
for object in HEAD 'HEAD^{tree}' HEAD:two; do
    id=$(stock rev-parse "$object")
    file=.git/objects/$(echo "$id" | sed 's,^..,&/,')
    cp -p "$file" whole
    chmod u+w "$file"
    printf x >>"$file"
    told git pack-objects --all -q out
    echo "$id" >list
    git pack-objects -q --stdout <list >/dev/null 2>&1
    told git repack -adq
    told git for-each-ref --format='%(contents)%(objectsize)'
    told git for-each-ref --format='%(objecttype)'
    told git commit-graph write --reachable
    [ "$object" = HEAD ] || told git clone -q --bare "file://$PWD/.git" clone.git | grep '^remote: error'
    mv -f whole "$file"
    rm -f .git/objects/info/commit-graph
done

## a loose object without content is none
# exits: 128
# masks: words
history 3
echo lost >lost
id=$(git hash-object -w lost)
commit one
stock update-ref refs/heads/side HEAD
stock reset -q --hard HEAD~1
: >empty
chmod u+w .git/objects/??/*
find .git/objects -name "$(echo "$id" | cut -c3-)" -exec cp empty {} \;
side=$(stock rev-parse side)
find .git/objects -name "$(echo "$side" | cut -c3-)" -exec cp empty {} \;
stock update-ref -d refs/heads/side
git pack-objects --all --reflog --stdout -q </dev/null | wc -c >size
git repack -adq
git repack -dq --geometric=2
git update-ref refs/heads/again "$side"
rm empty size

## a loose object without content is stored again
# differs: git takes the empty file for the object
history 1
echo again >again
id=$(stock hash-object -w again)
chmod u+w .git/objects/??/*
: >empty
find .git/objects -name "$(echo "$id" | cut -c3-)" -exec cp empty {} \;
rm empty
git add again
stock cat-file -t "$id"

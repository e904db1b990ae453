# What refs are told by formats.
# in: files reftable

## as it is
# in: sha1 sha256
history 2
stock branch other HEAD~1
stock tag light
stock tag -a -m note heavy
git for-each-ref
git for-each-ref refs/tags

## patterns
history 1
stock branch topic/one
stock branch topic/two
git for-each-ref --format='%(refname)' 'refs/heads/topic/*'
git for-each-ref --format='%(refname)' refs/heads/topic
git for-each-ref --format='%(refname)' refs/heads/topic/
git for-each-ref --format='%(refname)' refs/heads/top
git for-each-ref --format='%(refname)' 'refs/**/two'
git for-each-ref --format='%(refname)' --exclude='refs/heads/topic' 
printf 'refs/heads/main\nrefs/heads/topic/o*\n' | git for-each-ref --stdin --format='%(refname)'

## names made short
history 1
stock branch topic/one
stock tag main
stock update-ref refs/remotes/origin/main HEAD
git for-each-ref --format='%(refname:short) %(refname:lstrip=2) %(refname:rstrip=-1) %(refname:strip=1)'
git for-each-ref --format='%(refname:lstrip=-1) %(refname:rstrip=2)'

## fields of commits
# in: sha1 sha256
history 3
format='%(objecttype) %(objectsize) %(objectname:short) %(tree:short=10) %(numparent) %(parent:short)'
git for-each-ref --format="$format"
git for-each-ref --format='%(authorname)|%(authoremail)|%(authoremail:trim)|%(authoremail:localpart)|%(committer)|%(creator)'
git for-each-ref --format='%(subject)|%(body)|%(contents)|%(contents:size)|%(contents:lines=1)|%(subject:sanitize)'

## dates
history 2
for date in '' :iso :iso-strict :rfc :rfc2822 :short :raw :unix :local :iso-local :default; do
    git for-each-ref --format="%(authordate$date)"
done
git for-each-ref --format='%(committerdate:format:%Y-%m-%d %H:%M)'
git for-each-ref --format='%(creatordate:format-local:%d.%m.%y %T %z)'

## dates as people say them
# exits: 128 128
history 1
git for-each-ref --format='%(authordate:human) %(authordate:human-local)'
git for-each-ref --format='%(authordate:auto:human) %(authordate:auto:nothing)'
git for-each-ref --format='%(authordate:human:x)'
git for-each-ref --format='%(authordate:auto)'

## fields of tags
history 2
stock tag -a -m 'A subject

And a body.' v1
stock tag -a -m inner inner HEAD~1
stock tag -a -m outer outer inner
git for-each-ref --format='%(tag) %(type) %(object) %(*objectname) %(*objecttype) %(taggername) %(taggerdate)' refs/tags
git for-each-ref --format='%(subject)|%(body)|%(*subject)|%(*authorname)' refs/tags

## fields of blobs and trees
# state: no-fsck
history 1
stock tag blob HEAD:dir1/file1
stock tag tree HEAD^{tree}
git for-each-ref --format='%(refname) %(objecttype) [%(subject)] [%(body)] [%(authorname)] [%(tree)]' refs/tags

## sorted
history 3
stock branch b HEAD~2
stock branch a HEAD~1
stock branch v10 HEAD
stock branch v9 HEAD
git for-each-ref --sort=committerdate --format='%(refname)'
git for-each-ref --sort=-committerdate --sort=-refname --format='%(refname)'
git for-each-ref --sort=version:refname --format='%(refname)'
git for-each-ref --sort=-v:refname --count=2 --format='%(refname)'
git for-each-ref --sort=objectname --format='%(refname)'
git for-each-ref --no-sort --format='%(refname)' refs/heads/a

## quoted for languages
history 1
stock tag -a -m "it's a \"note\"" v1
git for-each-ref --shell --format='name=%(refname) subject=%(contents:subject)' refs/tags
git for-each-ref --perl --format='%(contents:subject)' refs/tags
git for-each-ref --python --format='%(contents:subject)' refs/tags
git for-each-ref --tcl --format='%(contents:subject)' refs/tags

## conditions
history 2
stock branch other HEAD~1
git for-each-ref --format='%(if)%(HEAD)%(then)here%(else)there%(end) %(refname)'
git for-each-ref --format='%(if:equals=refs/heads/other)%(refname)%(then)yes%(end)%(refname:short)'
git for-each-ref --format='%(if:notequals=main)%(refname:short)%(then)not main%(end)|'
git for-each-ref --omit-empty --format='%(if:equals=main)%(refname:short)%(then)%(refname)%(end)'

## aligned
history 1
stock branch a-much-longer-name
git for-each-ref --format='%(align:20)%(refname:short)%(end)|'
git for-each-ref --format='%(align:width=20,position=right)%(refname:short)%(end)|'
git for-each-ref --format='%(align:middle,20)%(refname:short)%(end)|'

## colours and escapes
history 1
git for-each-ref --color --format='%(color:red)%(refname)%(color:reset)%%%0a%00x'
git for-each-ref --format='%(color:red)%(refname)'

## by what points at it, reaches it, is reached
# exits: 129
history 4
stock branch a HEAD~2
stock tag -a -m note v1 HEAD~1
git for-each-ref --points-at HEAD~1 --format='%(refname)'
git for-each-ref --points-at v1 --format='%(refname)'
git for-each-ref --merged a --format='%(refname)'
git for-each-ref --no-merged a --format='%(refname)'
git for-each-ref --contains HEAD~1 --format='%(refname)'
git for-each-ref --no-contains HEAD~1 --format='%(refname)'
git for-each-ref --contains nothing

## upstreams
history 3 upstream
stock clone -q upstream work2
cd work2
commit one
stock branch --track other origin/main
git for-each-ref --format='%(refname:short) %(upstream) %(upstream:short) %(upstream:track) %(upstream:trackshort) %(upstream:remotename) %(upstream:remoteref)' refs/heads
git for-each-ref --format='%(push) %(push:short) %(push:track,nobracket)' refs/heads

## ahead and behind
history 4
stock branch a HEAD~2
git for-each-ref --format='%(refname) %(ahead-behind:main)'

## symbolic refs
history 1
stock symbolic-ref refs/heads/alias refs/heads/main
git for-each-ref --format='%(refname) %(symref) %(symref:short) %(symref:lstrip=1)'

## unknown fields
# masks: usage
# exits: 128 129 128 128 128
history 1
git for-each-ref --format='%(nothing)'
git for-each-ref --format='%(refname'
git for-each-ref --format='%(refname:nothing)'
git for-each-ref --format='%(objectname:short=x)'
git for-each-ref --sort=nothing

## conditions that are not closed
# exits: 128 128 128 128
history 1
git for-each-ref --format='%(if)x'
git for-each-ref --format='%(end)'
git for-each-ref --format='%(align)x%(end)'
git for-each-ref --format='%(then)x'

## options that make no sense
# masks: usage
# exits: 129 129 129
history 1
git for-each-ref --bogus
git for-each-ref --shell --perl
git for-each-ref --count=-1

## all refs, also those of no folder
history 1
stock update-ref ORIG_HEAD HEAD
git for-each-ref --include-root-refs
git for-each-ref --include-root-refs --format='%(refname) %(HEAD)'

## letters in any case
history 1
stock branch Topic
stock branch another
git for-each-ref --ignore-case --sort=refname --format='%(refname)'
git for-each-ref --ignore-case --format='%(refname)' refs/heads/topic

## trailers
repository
stock commit -q --allow-empty -m 'subject

body

Signed-off-by: A <a@example.com>
Reviewed-by: B <b@example.com>'
git for-each-ref --format='%(trailers)'
git for-each-ref --format='%(contents:trailers:key=Reviewed-by,valueonly)'
git for-each-ref --format='%(trailers:only,separator=%x2C,key_value_separator= is )'

## described
# in: sha1 sha256
history 3
stock tag -a -m note v1 HEAD~1
stock tag light
git for-each-ref --format='%(refname) %(describe)'
git for-each-ref --format='%(describe:tags) %(describe:abbrev=12) %(describe:match=v*)'
git for-each-ref --format='%(describe:tags,exclude=l*) %(describe:abbrev=0) [%(*describe)]'
git for-each-ref --sort=-describe --format='%(refname)'

## described by one of several tags
history 2
stock tag zlight
stock tag alight
git for-each-ref --format='%(describe) %(describe:tags)' refs/heads
stock tag -a -m old first
stock tag -a -m same asecond
git for-each-ref --format='%(describe) %(describe:tags)' refs/heads
tick
stock tag -a -m new last
commit one
git for-each-ref --format='%(refname) %(describe) %(describe:tags,exclude=last)'
stock update-ref refs/tags/renamed last
stock tag -d last
git for-each-ref --format='%(refname) %(describe)'

## described by nothing
# state: no-fsck
history 2
git for-each-ref --format='[%(describe:tags)]'
stock tag -a -m above above
stock tag -a -m tree tree HEAD^{tree}
stock tag blob HEAD:dir1/file1
stock branch below HEAD~1
git for-each-ref --format='%(refname) [%(describe:tags)] [%(*describe)]'
git for-each-ref --format='%(refname) [%(describe:match=none)]'

## described across merges
history 3
stock checkout -q -b side HEAD~1
commit one
stock tag -a -m side on-side
commit two
stock checkout -q main
commit three
stock tag -a -m main on-main
stock merge -q --no-edit side
commit four
stock checkout -q --orphan other
commit five
stock merge -q --no-edit --allow-unrelated-histories -s ours main
git for-each-ref --format='%(refname) %(describe) %(describe:match=*side) %(describe:tags,exclude=*-*)'

## descriptions that are asked for in a wrong way
# exits: 128 128 128 128 128 128
history 1
git for-each-ref --format='%(describe:nothing)'
git for-each-ref --format='%(describe:tags,nothing)'
git for-each-ref --format='%(describe:tags=maybe)'
git for-each-ref --format='%(describe:match=)'
git for-each-ref --format='%(describe:abbrev=-1)'
git for-each-ref --format='%(describe:abbrev=x)'

## names by a mailmap
history 1
stock tag -a -m note v1
git for-each-ref --format='%(authorname:mailmap) %(taggeremail:mailmap)'
echo 'Real Name <real@example.com> <author@example.com>' >.mailmap
echo 'Tag Ger <committer@example.com>' >>.mailmap
git for-each-ref --format='%(authorname:mailmap) %(authoremail:mailmap) %(authoremail:mailmap,trim)'
git for-each-ref --format='%(authoremail:localpart,mailmap) %(committername:mailmap) %(taggername:mailmap) %(*authorname:mailmap)'
git for-each-ref --format='%(authorname) %(authoremail) %(creator)'
git for-each-ref --sort=-authorname:mailmap --format='%(refname)'

## names by odd mailmaps
history 1
format='%(authorname:mailmap)|%(authoremail:mailmap)'
for mailmap in '<new@example.com> <Author@Example.Com>' '# Name <author@example.com>' 'Name <author@example.com> # why\r' \
    'Name <n@example.com> a u thor <AUTHOR@example.com>' 'Name <n@example.com> another <author@example.com>' \
    'One <author@example.com>\n<two@example.com> <author@example.com>' ' Name  <author@example.com>' 'Name < author@example.com>' \
    'Name <author@example.com' '<author@example.com>'; do
    printf "$mailmap\n" >.mailmap
    git for-each-ref --format="$format"
done

## mailmaps in other places
history 1
mkdir sub
echo 'Top <author@example.com>' >.mailmap
echo 'Sub <author@example.com>' >sub/.mailmap
echo 'File <author@example.com>' >file
git -C sub for-each-ref --format='%(authorname:mailmap)'
git -C sub -c mailmap.file=file for-each-ref --format='%(authorname:mailmap)'
git -c mailmap.file=nothing -c mailmap.blob=HEAD:nothing for-each-ref --format='%(authorname:mailmap)'
git -c mailmap.blob=HEAD for-each-ref --format='%(authorname:mailmap)'
rm .mailmap
ln -s file .mailmap
git for-each-ref --format='%(authorname:mailmap)'
rm .mailmap
echo 'Bare <author@example.com>' >.mailmap
stock add .mailmap
stock commit -q -m mailmap
stock clone -q --bare . bare.git
git -C bare.git for-each-ref --format='%(authorname:mailmap)'
git -C bare.git -c mailmap.blob=HEAD~1:dir1/file1 for-each-ref --format='%(authorname:mailmap)'

## mailmaps that are asked for in a wrong way
# exits: 128 128 128 128
history 1
git for-each-ref --format='%(authorname:mailmap,trim)'
git for-each-ref --format='%(authoremail:mailmap,nothing)'
git for-each-ref --format='%(authoremail:trimmed)'
git for-each-ref --format='%(authoremail:mailmap,)'

## which branch a branch is from
# exits: 128 128
history 3
stock branch a HEAD~1
stock branch b HEAD~1
stock branch old HEAD~2
git for-each-ref --format='%(refname) %(is-base:main)'
git for-each-ref --format='%(refname) %(is-base:main) %(is-base:a)' --sort=-refname refs/heads/a refs/heads/b refs/heads/old
stock checkout -q -b topic a
commit one
stock merge -q --no-edit -s ours main
git for-each-ref --format='%(refname) %(is-base:topic)' refs/heads/a refs/heads/main
stock checkout -q --orphan other
commit two
git for-each-ref --format='%(refname) [%(is-base:other)]' refs/heads/a refs/heads/main
git for-each-ref --format='%(is-base)'
git for-each-ref --format='%(is-base:nothing)'

## signatures
# exits: 128
history 1
git for-each-ref --format='[%(signature:grade)] [%(signature:signer)] [%(signature)] [%(signature:trustlevel)]'
git for-each-ref --format='%(signature:nothing)'

## signatures that gpgsm judges
repository
cat >gpgsm <<'EOF'
#!/bin/sh
for option in "$@"; do
    case $option in
    --status-fd=1 | --verify | [!-]* | -) ;;
    *) echo "invalid option \"$option\"" >&2; exit 2 ;;
    esac
done
echo '[GNUPG:] GOODSIG 12AB C O'
echo '[GNUPG:] VALIDSIG AAAA 2020-01-01 1577836800 0 4 0 1 8 00 BBBB'
echo '[GNUPG:] TRUST_FULLY'
EOF
chmod +x gpgsm
stock config gpg.x509.program ./gpgsm
begin='gpgsig -----BEGIN SIGNED MESSAGE-----'
commit=$(printf 'tree %s\nauthor a <a@b> 1700000000 +0000\ncommitter a <a@b> 1700000000 +0000\n%s\n abc\n -----END SIGNED MESSAGE-----\n\nx\n' "$(stock write-tree)" "$begin" | stock hash-object -w -t commit --stdin)
stock update-ref refs/heads/main "$commit"
git for-each-ref --format='%(refname) %(signature:grade) %(signature:key) %(signature:signer)'

## signatures that gpg judges
repository
cat >gpg <<'EOF'
#!/bin/sh
# What is signed is on standard input.
echo 'for people' >&2
sed -n 's/^say //p' | tr '~' '\n'
EOF
chmod +x gpg
stock config gpg.program ./gpg
tree=$(stock write-tree)
number=0
signed() {
    number=$((number + 1))
    commit=$(printf 'tree %s\nauthor a <a@b> 1700000000 +0000\ncommitter a <a@b> 1700000000 +0000\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n abc\n -----END PGP SIGNATURE-----\n\nsay %s\n' "$tree" "$1" | stock hash-object -w -t commit --stdin)
    stock update-ref refs/heads/$number "$commit"
}
good='[GNUPG:] GOODSIG 12AB C O <c@o>'
valid='[GNUPG:] VALIDSIG AAAA 2020-01-01 1577836800 0 4 0 1 8 00 BBBB'
signed "$good~$valid~[GNUPG:] TRUST_ULTIMATE 0 pgp"
signed "$good~$valid~[GNUPG:] TRUST_MARGINAL"
signed "$good~$valid~[GNUPG:] TRUST_NEVER"
signed "$good"
signed "$good~$good"
signed '[GNUPG:] BADSIG 12AB C O <c@o>'
signed '[GNUPG:] ERRSIG 12AB 1 8 00 1 9~[GNUPG:] NO_PUBKEY 12AB'
signed "[GNUPG:] EXPKEYSIG 12AB C O~$valid~[GNUPG:] TRUST_FULLY"
signed "[GNUPG:] REVKEYSIG 12AB C O~$valid"
signed "[GNUPG:] EXPSIG 12AB C O~$valid"
signed nothing
stock tag -a -m tag tag 1
for part in '' :grade :signer :key :fingerprint :primarykeyfingerprint :trustlevel; do
    git for-each-ref --format="%(refname) [%(signature$part)] [%(*signature$part)]"
done
git for-each-ref --sort=signature:grade --format='%(refname) %(signature:grade)'

## work trees of branches
# in: files
history 1
stock branch a
git for-each-ref --format='%(refname) %(worktreepath)'

## trailers, of all kinds of messages
repository
number=0
for message in 'A: b\n' 's\nA: b\n' 's\n\nA: b\n' 's\n\nA: b\nnot\n' 's\n\nA: b\nSigned-off-by: x\n1\n2\n3\n4\n5\n6\n' 's\n\nSigned-off-by: x\n1\n2\n3\n4\n' \
    's\n\n(cherry picked from commit 1)\nn\n' 's\n\nA: b\n# c\nC: d\n# e\n\n' 's\n\nA: b\n\nConflicts:\n\tfile\n' 's\n\nA: b\n---\nC: d\n' 's\n\nA:\nB :  \n f\n' 's\n\nA: b\n   \nB: c\n'; do
    number=$((number + 1))
    printf "$message" | stock commit -q --allow-empty --cleanup=verbatim -F -
    stock branch "b$number"
done
git for-each-ref --format='%(refname:short) [%(trailers)] [%(trailers:only,unfold)] [%(contents:trailers:keyonly,separator=%x2C)]'

## trailers that are asked for in a wrong way
# exits: 128 128 128 128
history 1
git for-each-ref --format='%(trailers:foo)'
git for-each-ref --format='%(trailers:key)'
git for-each-ref --format='%(trailers:only=maybe)'
git for-each-ref --format='%(contents:trailersx)'

## dates in a form of strftime, with flags, widths and modifiers
history 3
git for-each-ref --format='%(committerdate:format:%-d|%_d|%0d|%5d|%-5d|%_5d|%05d|%_-d|%-_5d)'
git for-each-ref --format='%(committerdate:format:%^a|%#a|%5a|%05a|%-5a|%^10B|%#p|%^p|%#P|%^P|%5p|%#^p)'
git for-each-ref --format='%(committerdate:format:%12F|%_10F|%012F|%-F|%^c|%#c|%30c|%030c|%_10D|%010r|%30x)'
git for-each-ref --format='%(committerdate:format:%-e|%0e|%5e|%-k|%0l|%-j|%5j|%-C|%_C|%06C|%-Y|%6Y|%_6Y|%5G|%_g|%-u|%05w|%-I)'
git for-each-ref --format='%(committerdate:format:%+d|%5_d|%q|%10q|%-|%5n|%5t|%5%|%05%|%5)'
for letter in a A b B c C d D e F g G h H I j k l m M n p P r R S t T u U V w W x X y Y % E; do
    git for-each-ref --format="%(committerdate:format:%E$letter,%O$letter,%-$letter,%09$letter,%_9$letter,%^$letter,%#$letter)"
done

## --start-after
# needs git: 2.51
# exits: 128 128
history 1
for name in a a/x b c; do git update-ref "refs/odd/$name-" HEAD; done
git for-each-ref --start-after=refs/odd --format='%(refname)'
git for-each-ref --start-after=refs/odd/a --format='%(refname)' --count=2
git for-each-ref --start-after=refs/odd/b- --format='%(refname)'
git for-each-ref --start-after=refs/x
git for-each-ref --start-after=refs/odd refs/heads
git for-each-ref --start-after=refs/odd --sort=refname

## a tag that tells another kind
# needs git: 2.55
# masks: words
# exits: 128
# state: no-fsck
history 1
git tag -m good good
bad=$(stock cat-file tag good | sed s/commit/blob/ | stock hash-object -w -t tag --stdin)
git update-ref refs/tags/bad "$bad"
git for-each-ref --format='%(*objectname)' refs/tags/bad

## sorted by where a commit was started from
# needs git: 2.55
history 3
stock branch a HEAD~1
stock branch old HEAD~2
git for-each-ref --format='%(refname)' --sort=is-base:main refs/heads/a refs/heads/old
git for-each-ref --format='%(refname) %(is-base:main)' --sort=is-base:main

## refs to other objects than commits, beside commits that are counted
# needs git: 2.55
# exits: 128 129
history 3
stock tag blob HEAD:dir1/file1
stock tag tree 'HEAD^{tree}'
stock tag -m of-blob note blob
stock tag -m of-commit good HEAD~1
git for-each-ref --format='%(refname) %(ahead-behind:HEAD)'
git for-each-ref --format='%(refname) %(ahead-behind:HEAD) %(ahead-behind:HEAD~1)' refs/tags
git for-each-ref --format='%(refname) %(is-base:HEAD)' refs/tags
git for-each-ref --format='%(is-base:note)'
git for-each-ref --contains note

## replaced objects
# in: files reftable sha1 sha256
history 6
stock tag -a -m tag annotated HEAD~3
stock branch middle HEAD~3
stock branch old HEAD~4
new=$(stock commit-tree HEAD~5^{tree} -p HEAD~5 -m Replaced)
stock replace HEAD~3 $new
stock pack-refs --all
stock --no-replace-objects commit-graph write --reachable
git for-each-ref --format='%(refname) %(objectname) %(objectsize) %(tree) %(parent) %(subject) %(*subject)'
git for-each-ref --format='%(refname) %(ahead-behind:old) %(describe)' --contains main~4
git for-each-ref --format='%(refname)' --contains old
git for-each-ref --format='%(refname) %(is-base:middle)' refs/heads
git for-each-ref --format='%(refname) %(subject)' --no-merged main
git show-ref -d
git reflog -3
git update-ref refs/heads/parent main~4
git update-ref refs/other/tree main~3^{tree}
git update-ref refs/heads/found 'main^{/Replaced}'
echo x | git commit-tree main~3^{tree} -p main~4
git --no-replace-objects for-each-ref --format='%(refname) %(subject)' refs/heads
git -c core.useReplaceRefs=false for-each-ref --format='%(refname) %(parent)' refs/heads
GIT_NO_REPLACE_OBJECTS=1 git update-ref refs/heads/itself main~4
GIT_REPLACE_REF_BASE=refs/other/ git for-each-ref --format='%(refname) %(subject)' refs/heads

## what is stored and sent is not replaced
# in: files
history 3
stock replace HEAD~1 $(echo Replaced | stock commit-tree HEAD~2^{tree} -p HEAD~2)
echo main | git pack-objects --revs -q --stdout >p.pack
git reflog expire --expire-unreachable=now --all
git reflog
git repack -adq
stock --no-replace-objects rev-list --objects main
git init -q --bare copy.git
git --git-dir=copy.git unpack-objects -q <p.pack
stock --git-dir=copy.git for-each-ref

## what tracks nothing has no remote
history 1
stock config remote.origin.url elsewhere
stock config remote.origin.fetch '+refs/heads/*:refs/remotes/origin/*'
for name in tags none; do
    stock branch $name
    stock config branch.$name.remote origin
done
stock config branch.tags.merge refs/tags/v1
stock branch url
stock config branch.url.remote https://example.com/x
stock config branch.url.merge refs/heads/main
stock branch good
stock config branch.good.remote origin
stock config branch.good.merge refs/heads/main
for name in upstream push; do
    git for-each-ref --format="%(refname) [%($name)] [%($name:remotename)] [%($name:remoteref)] [%($name:track)]" refs/heads
done

## abbreviations longer than names, and settings of reftables
# in: files
history 2
git -c core.abbrev=41 for-each-ref --format='%(objectname:short)'
git -c core.abbrev=100 reflog
git -c reftable.blockSize=bad update-ref refs/heads/k main
git -c reftable.lockTimeout=bad pack-refs --all
git for-each-ref

## keys that were good when they signed
ssh-keygen -q -t ed25519 -N '' -C key -f key
stock init -q signed
cd signed
tick
stock -c gpg.format=ssh -c user.signingKey="$PWD/../key" commit -q --allow-empty -S -m signed
for times in 'valid-before="20240601"' 'valid-after="20240601"' 'valid-before="20040601"' ''; do
    echo "a@example.com $times $(cut -d' ' -f1,2 <../key.pub)" >../signers
    git -c gpg.ssh.allowedSignersFile="$PWD/../signers" for-each-ref \
        --format='%(signature:grade) %(signature:signer) %(signature:trustlevel)' refs/heads/main
done
cd ..
rm -rf signed key key.pub signers
stock init -q

## sorted by what only cat-file prints
history 1
stock branch other
git for-each-ref --sort=rest
git for-each-ref --sort=-rest --format='%(refname)'

## the push target by a refspec without a colon
history 1
git -c remote.o.push=refs/heads/main -c 'remote.o.fetch=refs/heads/*:refs/remotes/o/*' -c branch.main.remote=o \
    -c branch.main.merge=refs/heads/main for-each-ref --format='%(push) %(upstream)'

## a date in no form does no harm where there is none
# exits: 128 128 128 128 128
history 1
stock branch other
git for-each-ref --format='%(refname) %(taggerdate:bogus)%(*authordate:bogus)'
git for-each-ref --sort=taggerdate:bogus
git for-each-ref --format='%(authordate:bogus)'
git for-each-ref --format='%(creatordate:bogus)'
git for-each-ref --sort=committerdate:bogus
stock tag -a -m x v1
git for-each-ref --format='%(taggerdate:bogus)' refs/tags
git for-each-ref --format='%(*authordate:bogus)' refs/tags

## refspecs that are none
# exits: 128 128 128 128 128 128 128 128
history 1
for spec in bad:bad:bad 'a b' 'a*:b' a..b '^' '^a:b'; do
    git -c "remote.o.fetch=$spec" for-each-ref --format='%(upstream)'
done
git -c remote.o.fetch=a:b:c for-each-ref --format='%(push:short)'
git -c remote.o.fetch=a:b:c update-ref refs/heads/new main@{upstream}
git -c remote.o.fetch=a:b:c for-each-ref
for spec in '' + : x: bad '^x' '*:*' '+a*b:c*'; do
    git -c "remote.o.fetch=$spec" for-each-ref --format='%(upstream)'
done

## trailers as settings have them
repository
say() { printf "$1" | stock commit -q --allow-empty --cleanup=verbatim -F -; stock tag "$2"; }
say 's\n\nack: x\nFix #12\nFIXES # 13\nA#b\nn\nn\n' one
say 's\n\nacked: x\nn\nn\nn\n' two
say 's\n\nAcked-by-me: x\nack-: y\n' three
show() {
    git "$@" for-each-ref refs/tags --format='[%(trailers)] [%(trailers:only)] [%(trailers:keyonly)]'
    git "$@" for-each-ref refs/tags --format='[%(trailers:key=Acked-by)] [%(trailers:key_value_separator=+,unfold)]'
}
show -c trailer.separators=':#' -c trailer.ack.key='Acked-by: ' -c trailer.fix.key='fix #'
show -c trailer.separators='#:' -c trailer.ack.key=Acked-by
show -c trailer.separators='=: ' -c trailer.Ack.key='Acked-by'
show -c trailer.separators= -c trailer.acked-by-me.cmd=x
show -c trailer.acked-by-me.key= -c trailer.fixes.where=end

## settings of trailers that are wrong
# exits: 128 128 128 128
history 1
for name in trailer.separators trailer.a.key trailer.a.cmd; do
    git -c "$name" for-each-ref --format='%(trailers)'
done
git -c trailer.where=x -c trailer.a.ifexists=y -c trailer.a.key=b -c trailer.a.key=c -c trailer.where for-each-ref --format='%(trailers)'
git -c trailer.separators for-each-ref
printf '[trailer "a"]\n\tkey\n' >>.git/config
git for-each-ref --format='%(trailers)'

## a line in packed-refs that peels what is no tag
# in: files
# needs git: 2.55
history 2
stock tag -a -m x v1
id=$(stock rev-parse HEAD)
tree=$(stock rev-parse HEAD^{tree})
printf '# pack-refs with: peeled fully-peeled sorted \n%s refs/heads/main\n^%s\n%s refs/tags/v1\n^%s\n' $id $tree $(stock rev-parse v1) $tree >.git/packed-refs
rm .git/refs/heads/main .git/refs/tags/v1
git for-each-ref --format='%(refname) %(objecttype) [%(*objecttype)] [%(*subject)]'
git for-each-ref --points-at $tree
git for-each-ref --points-at HEAD
git for-each-ref --contains HEAD
git for-each-ref --merged HEAD
git for-each-ref --format='%(ahead-behind:HEAD~1)'
stock pack-refs --all
rm .git/packed-refs
stock update-ref refs/heads/main $id

## tags that lie about what they tag
# in: files reftable sha1 sha256
# needs git: 2.55
# state: no-fsck
# exits: 128 128 128 128 128 128 128
history 2
stock tag -a -m x v1
id=$(stock rev-parse HEAD)
missing=$(echo $id | sed 's/./1/g')
stock cat-file tag v1 | sed "s/$id/$missing/" | stock hash-object -w -t tag --literally --stdin >tag
stock update-ref refs/tags/gone $(cat tag)
git show-ref -d
git upload-pack --advertise-refs . | tr '\0' '\n' | grep gone
git for-each-ref --points-at $id
git for-each-ref --format='%(*objectname)' refs/tags/gone
git for-each-ref --format='%(*refname)' refs/tags/gone
git for-each-ref --contains HEAD
stock update-ref -d refs/tags/gone
for type in blob tag; do
    stock cat-file tag v1 | sed "s/type commit/type $type/" | stock hash-object -w -t tag --literally --stdin >tag
    stock update-ref refs/tags/lies $(cat tag)
    git show-ref -d
    git upload-pack --advertise-refs . 2>/dev/null | tr '\0' '\n' | grep lies
    git for-each-ref --points-at $id refs/tags/lies
    git for-each-ref --format='%(*objectname)' refs/tags/lies
    git for-each-ref --points-at v1 refs/tags/lies
    git for-each-ref --format='%(*refname)' refs/tags/lies
    git for-each-ref --contains HEAD refs/tags/lies
    stock update-ref -d refs/tags/lies
done
rm tag

## malformed fields, with a star and without
# needs git: 2.55
# exits: any
history 1
for field in refname symref upstream push objectname tree parent authorname authoremail objectsize subject contents raw; do
    for argument in bad short=x lstrip=x strip=x rstrip=x; do
        git for-each-ref --format="%($field:$argument)"
        git for-each-ref --format="%(*$field:$argument)"
    done
done
git for-each-ref --format='%(rest:x)'
git for-each-ref --format='[%(body:)]'
git for-each-ref --format='[%(*symref)]'

## settings of mailmaps without a value
# needs git: 2.55
# exits: 128 128 128 128
history 1
for name in file blob; do
    git -c mailmap.$name for-each-ref --format='%(authorname:mailmap)'
    git -c mailmap.$name for-each-ref --format='%(authorname)'
    git -c mailmap.$name for-each-ref --sort=authoremail:mailmap
done

## a mailmap that names the committer only
# needs git: 2.55
history 2
echo 'New <new@example.com> <committer@example.com>' >.mailmap
git for-each-ref --format='%(authorname:mailmap) %(committername:mailmap) %(committeremail:mailmap) %(creator:mailmap)'
git reflog -1 --format='%aN %cN %cE'

## flags of refs
# in: files reftable
# state: no-fsck
history 2
git branch packed
git tag -m t annotated
git pack-refs --all
git branch loose
for name in loose packed none; do stock symbolic-ref refs/heads/to-$name refs/heads/$name; done
stock symbolic-ref refs/heads/twice refs/heads/to-packed
git for-each-ref --format='%(refname) [%(flag)]'
git for-each-ref --format='%(refname) [%(flag:x)] [%(*flag)]' --include-root-refs
git for-each-ref --format='%(refname) %(if)%(flag)%(then)yes%(else)no%(end)' --sort=-flag

## a ref of zeros in packed-refs
# in: files
# state: no-fsck
# exits: 128 128 128 128 128 128 128
history 2
for name in a b; do stock branch $name; done
stock pack-refs --all
zeros=$(printf %040d 0)
sed "s|^[0-9a-f]* refs/heads/a|$zeros refs/heads/a|" .git/packed-refs >new
cat new >.git/packed-refs
rm new
stock symbolic-ref refs/heads/to-a refs/heads/a
echo $zeros >.git/refs/heads/0-loose
for field in refname objectname objectname:short symref upstream HEAD flag ahead-behind:main; do
    git for-each-ref --format="%(refname:short) %($field)"
done
git for-each-ref --contains main
git for-each-ref --no-merged main --format='%(refname)'
git for-each-ref --sort=-objectname --format='%(refname)'
git for-each-ref --format='%(refname) %(describe:tags)' refs/heads/b
GIT_REF_PARANOIA=0 git for-each-ref
GIT_REF_PARANOIA=0 git show-ref
git for-each-ref
git for-each-ref --format='%(*objectname)'
git for-each-ref --format='%(objecttype)' refs/heads/a
git for-each-ref --sort=objecttype --format='%(refname)'
git for-each-ref --points-at main
git for-each-ref --points-at $zeros
git show-ref

## a ref of zeros in a reftable
# in: reftable
# state: no-fsck
# exits: 128
history 2
blob=$(echo x | stock hash-object -w --stdin)
stock tag a $blob
stock symbolic-ref refs/heads/to-a refs/tags/a
stock pack-refs
perl -0pi -e "BEGIN { \$id = pack('H*', '$blob') } s/\Q\$id\E/\"\\0\" x 20/e" .git/reftable/*.ref
git for-each-ref
git for-each-ref --format='%(refname) %(flag)' --points-at main
GIT_REF_PARANOIA=0 git for-each-ref
git show-ref

## broken refs are told of where they would be listed
# in: files
history 2
stock tag t
echo x >.git/refs/tags/main
git for-each-ref --format='%(refname:short)' refs/heads
git for-each-ref --format='%(refname) %(describe:tags)' refs/heads
git for-each-ref --format='%(refname:short)'

## objects that options name are looked for before what else is wrong
# exits: 129 128 129 129 128
history 1
git for-each-ref --count=-1 --points-at=none
git for-each-ref --shell --perl --merged=none
git for-each-ref --count=-1 --contains=none
git for-each-ref --count=-1 --color=none
git for-each-ref --color=always --no-merged=none --count=-1

## a work tree whose place is not known has no path
history 1
stock worktree add -q linked
: >.git/worktrees/linked/gitdir
git for-each-ref --format='%(refname) %(worktreepath)'
## zones and seconds in a form of strftime
history 1
form='%-s|%15s|%_15s|%-15s|%015s|%#s|%^s|%Es|%Os=%-z|%_z|%0z|%^z|%2z|%_2z|%7z|%-7z|%_7z|%07z|%E5z|%Oz=%_Z|%^Z|%#Z|%^#Z|%7Z|%07Z|%EZ=%5%z|%%z|%10%%s|%-%Z|%'
for date in '1112912598 +0130' '1120000000 -0330' '1130631300 +0000'; do
    GIT_COMMITTER_DATE="@$date" stock commit -q --amend -m x
    for zone in UTC CET-1CEST,M3.5.0,M10.5.0/3 NST3:30NDT,M3.2.0,M11.1.0 XYZ-3:20:30; do
        TZ=$zone git for-each-ref --format="%(committerdate:format:$form)"
        TZ=$zone git for-each-ref --format="%(committerdate:format-local:$form)"
        TZ=$zone git for-each-ref --format='%(committerdate:format:%z[%Z]) %(committerdate:format-local:%z %Z)'
    done
done
for date in '4102444800 +1000' '1099511627776 +0000'; do
    GIT_COMMITTER_DATE="@$date" stock commit -q --amend -m x
    TZ=CET-1CEST,M3.5.0,M10.5.0/3 git for-each-ref --format='%(committerdate:format-local:%c|%-s|%-z|%Z)'
done
git for-each-ref --format='%(committerdate:format:%5000d|%6000z|%5000q)' | wc -c

## a program for signatures that cannot be started
repository
tree=$(stock write-tree)
signed() {
    printf 'tree %s\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\ngpgsig %s\n x\n\nm\n' "$tree" "$1" |
        stock hash-object -t commit -w --stdin --literally
}
stock update-ref refs/heads/pgp "$(signed '-----BEGIN PGP SIGNATURE-----')"
stock update-ref refs/heads/x509 "$(signed '-----BEGIN SIGNED MESSAGE-----')"
stock update-ref refs/heads/ssh "$(signed '-----BEGIN SSH SIGNATURE-----')"
echo x >file
for program in none-such ./none-such ./file /; do
    for kind in pgp x509 ssh; do
        git -c gpg.program=$program -c gpg.x509.program=$program -c gpg.ssh.program=$program -c gpg.ssh.allowedSignersFile=file \
            for-each-ref refs/heads/$kind --format='%(refname) %(signature:grade)|%(signature:trustlevel)|%(signature)'
    done
done

## described and derived across gaps
# state: no-fsck
history 2
stock tag v1
commit lost
lost=$(stock rev-parse HEAD)
commit three
stock tag v3
commit four
stock checkout -q -b side v3
commit side
stock merge -q --no-edit main
stock checkout -q -b other "$lost"
commit other
stock checkout -q -b far v1
commit far
stock merge -q -m merge main
stock reflog expire --expire=now --all
lose "$lost"
git for-each-ref --format='%(refname) [%(describe:tags)] [%(describe:tags,match=v1)] [%(describe)]'
git for-each-ref --sort=describe:tags,match=v1 --format='%(refname)'
for base in main side other far main~1; do
    git for-each-ref --format="%(refname) %(is-base:$base)" 2>errors
    git for-each-ref --format="%(refname) %(is-base:$base)" refs/heads/other refs/heads/far 2>>errors
    git for-each-ref --format="%(refname) %(is-base:$base)" refs/heads/side 2>>errors
    # Git says it again for each ref.
    sort -u errors
done
rm errors

## what is shown before a missing object
# in: files
# state: no-fsck
# exits: 128 128 128
history 2
for name in a z; do stock branch $name; done
echo 1111111111111111111111111111111111111111 >.git/refs/heads/gone
git for-each-ref --format='%(refname) %(subject)' --no-sort
git for-each-ref --format='%(refname) %(subject)' --no-sort --include-root-refs
git for-each-ref --format='%(refname) %(subject)' --sort=-refname

## filters beside objects that cannot be parsed
# in: files sha1
history 3
for kind in tag commit; do
    junk=$(echo junk | stock hash-object -t $kind --literally -w --stdin)
    echo "$junk" >.git/refs/tags/junk
    for filter in --contains --no-contains --merged --no-merged; do
        git for-each-ref $filter HEAD
    done
done

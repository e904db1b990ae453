# Files into the index.

## new, changed and deleted files
# in: sha1 sha256
history 3
echo new >new
echo changed >dir1/file1
rm dir2/file2
git add .
git status --short

## more than one pack may hold
# state: packs
repository
git config core.bigFileThreshold 64k
git config pack.packSizeLimit 256k
noise() { awk -v "n=$1" 'BEGIN { srand(n); while (i++ < n * 1000) printf "%c", 1 + int(rand() * 255) }'; }
for thousands in 70 81 132 400; do noise $thousands >$thousands; done
git add .
for index in .git/objects/pack/*.idx; do stock show-index <$index | wc -l; done | sort

## by name
history 2
echo 1 >a
echo 2 >b
git add a
git status --short
git add -v b

## --all, --update, --no-all
history 3
echo new >new
echo changed >dir1/file1
rm dir2/file2
git add -u
git status --short
git add -A
git status --short
stock reset -q
git add --no-all .
git status --short

## nothing named
# needs git: 2.55
repository
git add
git add -v --

## a name that is not there
# exits: 128 128
repository
echo 1 >a
git add a nothing
git add --ignore-missing nothing

## only told
history 1
echo new >new
git add -n .
git add -nv new
git add --dry-run --ignore-missing new
git status --short

## ignored files
# needs git: 2.55
# exits: 1 1 1
repository
printf '*.log\n' >.gitignore
echo 1 >a.log
echo 2 >b
git add a.log
git add a.log b
git add .
git status --short --ignored
git add -f a.log
git status --short
git add --dry-run --ignore-missing x.log

## intent to add
history 1
echo new >new
git add -N new
git ls-files -s
git diff --stat
git add new

## permissions
# exits: 128
history 1
echo 1 >script
git add --chmod=+x script
git add --chmod=-x script
git ls-files -s script
git add --chmod=+y script

## chmod of a link
# exits: 255
repository
ln -s target link
git add link
git add --chmod=+x link

## links and programs
repository
ln -s a link
echo 1 >run
chmod +x run
git add .
git ls-files -s
rm link
echo file >link
git -c core.symlinks=false add link
chmod -x run
git -c core.fileMode=false add run

## pathspecs
repository
mkdir -p a/b
echo 1 >a/one.c
echo 2 >a/b/two.c
echo 3 >a/three.h
git add 'a/*.c'
git ls-files
git add ':(glob)a/**/*.h' ':!a/one.c'
git ls-files
(cd a/b && git add ':/')
git ls-files

## pathspecs taken literally, or in any case
# exits: 128 128
repository
echo 1 >'a*'
echo 2 >ab
echo 3 >UPPER
git --literal-pathspecs add 'a*'
git ls-files
git add ':(icase)upper'
git ls-files
git --literal-pathspecs add 'x*'
git add ':(nothing)a'

## pathspecs by attribute
repository
echo '*.c kind=source' >.gitattributes
echo 1 >a.c
echo 2 >a.h
git add ':(attr:kind=source)'
git ls-files

## pathspecs by attribute, all forms
repository
printf '%s\n' '*.c kind=source' '*.h kind' '*.o -kind' 'd/x.c !kind' '*.m kind=source,header other' 'sub/ other' >.gitattributes
mkdir -p d/e sub
for file in a.c a.h a.o a.m a.t d/x.c d/y.c d/e/z.c sub/q.c; do echo $file >$file; done
for form in kind=source kind -kind '!kind' 'kind=source other' other kind=nothing 'kind=source\,header' ' kind=source' 'kind  other'; do
    git add ":(attr:$form)"
    git ls-files
    rm -f .git/index
done
git add ':(exclude,attr:kind=source)' .
git ls-files
rm -f .git/index
git add ':(attr:kind=source,icase)A*' ':(attr:other)'
git ls-files
git add ':(attr:!kind)d'
git ls-files
git add ':(attr:kind=source)d/y.c' ':(attr)sub'
git ls-files
echo more >>d/x.c
git add -u ':(attr:!kind)'
git ls-files -s

## pathspecs by attribute, refused
# exits: 128 128 128 128 128 128 128 128 128
repository
echo 1 >a
git add ':(attr:)'
git add ':(attr:kind=source,attr:other)'
git add ':(attr:-kind=x)'
git add ':(attr:a@b)'
git add ':(attr:kind=so$rce)'
git add ':(attr:kind=so\)'
git add ':(attr:-)'
git add ':(attr:kind'
git add ':(attr:kind)nothing'

## from a file of pathspecs
# exits: 128 128
repository
echo 1 >a
echo 2 >b
printf 'a\n' >list
git add --pathspec-from-file=list
git ls-files
printf 'b\0' | git add --pathspec-from-file=- --pathspec-file-nul
git ls-files
git add --pathspec-from-file=list a
git add --pathspec-file-nul a

## outside of the work tree
# exits: 128
repository inner
echo 1 >outside
cd inner
git add ../outside

## behind a link
# exits: 128
repository
mkdir real
echo 1 >real/file
ln -s real link
git add link/file

## conversions of lines
repository
printf 'one\r\ntwo\r\n' >a.txt
printf 'one\r\ntwo\n' >b.txt
printf 'a\0b\r\n' >c.bin
git -c core.autocrlf=input add a.txt
git -c core.autocrlf=true add .
git ls-files -s --eol

## lines that would not come back
# exits: 128
repository
printf 'one\r\ntwo\n' >a.txt
git -c core.autocrlf=true -c core.safecrlf=true add a.txt

## a filter
# exits: 128
repository
echo '*.up filter=up' >.gitattributes
echo text >a.up
touch -d 2001-01-01 a.up
git -c filter.up.clean='tr a-z A-Z' add a.up
git cat-file -p :a.up
echo more >b.up
git -c filter.up.clean=false -c filter.up.required add b.up
git -c filter.up.clean=false add b.up

## a repository in the work tree
# masks: words
repository
history 1 inner
git add inner
git ls-files -s

## a repository in the work tree without commits
# needs git: 2.55
# exits: 128
repository
repository inner
git add inner

## words of advice about a repository in the work tree
# needs git: 2.55
repository
history 1 inner
git add .
git -c advice.addEmbeddedRepo=false add inner

## --renormalize
repository
printf 'one\r\n' >a.txt
git add a.txt
stock commit -qm one
echo '*.txt text' >.gitattributes
git add --renormalize .
git ls-files -s

## --refresh
# exits: 128
history 1
touch -d 2001-01-01 dir1/file1
git add --refresh dir1
git add --refresh nothing
git diff-files

## options that do not go together
# exits: 128 128 128
# masks: usage
history 1
git add -A -u
git add --ignore-missing x
git add --dry-run nothing

## a conflict is settled
# state: no-work
conflict
git ls-files -u
echo settled >dir1/file1
git add dir1/file1
git ls-files -u
git ls-files --resolve-undo

## an index that is locked
# exits: 128
history 1
: >.git/index.lock
git add .

## a file that is named as a directory
# exits: 128
repository
mkdir a
echo 1 >a/b
git add a/b/

## unknown options
# masks: usage
# exits: 129 129 129
repository
git add --bogus
git add -y
git add --chmod

## sparse
# needs git: 2.55
# exits: 1
history 6
stock sparse-checkout set dir1
mkdir -p dir2
echo new >dir2/new
git add dir2/new
git add --sparse dir2/new
git ls-files -t

## as the command stage
repository
echo 1 >a
git stage a
git ls-files -s

## what the user chooses
history 2
printf 'first\n' >edited
cat dir1/file1 >>edited
mv edited dir1/file1
echo last >>dir1/file1
echo new >new
printf 's\ny\nn\n' | git add -p
git diff --cached
printf 'y\n' | git -C dir1 add --patch file1
git ls-files -s
echo again >>dir1/file1
printf '2\n1\n\nq\n' | git add -i
git ls-files -s
echo more >>dir1/file1
GIT_EDITOR=true git add -e
git ls-files -s

## what the user chooses, in vain
# exits: 128
repository
echo 1 >a
printf '' | git add -p
git add -p --pathspec-from-file=-

## a conflict, where files have no executable bit
repository
stock config core.fileMode false
stock config core.symlinks false
id=$(echo old | stock hash-object -w --stdin)
for stages in '1:100755 2:100644' '1:100755 3:100644' '3:100755' '1:120000 3:100644'; do
    for stage in $stages; do
        echo "${stage#*:} $id ${stage%:*}	file"
    done | stock update-index --index-info
    echo "new $stages" >file
    git add file
    git ls-files -s
    stock update-index --force-remove file
done

## a repository of another hash in the work tree
# needs git: 2.55
# exits: 128 128 1
repository
stock init -q --object-format=sha256 inner
stock -C inner commit -q --allow-empty -m Message
git add inner
git add .
echo 1 >a
git add --ignore-errors .
git ls-files -s

## the work tree of a repository that is inside it
# state: no-files
mkdir top top/inner
repository top/inner
stock -C top/inner config core.worktree "$PWD/top"
echo 1 >top/a
echo 2 >top/inner/b
git -C top/inner add ../a b
git -C top/inner add .
git -C top/inner ls-files --full-name :/

## entries that are not to be in the work tree
# needs git: 2.55
# exits: 1 1 1 1 1 1
repository
echo 1 >file
stock add file
stock commit -q -m Message
stock update-index --skip-worktree file
rm file
echo '*.o' >.git/info/exclude
git add .
git add file
git add -A
git add -u file
git add --refresh file
echo 2 >file
git add .
git add --refresh file
git add -u

## a submodule that is never staged
# needs git: 2.55
history 2 upstream
repository
stock submodule --quiet add ./upstream sub 2>/dev/null
stock config -f .gitmodules submodule.sub.ignore all
stock add .gitmodules
stock commit -q -m Message
stock -C sub checkout -q HEAD~1
git add sub
git add -u
git add --force -A sub/
stock status --short --untracked-files=no
stock reset -q sub
git add --force -u
stock status --short --ignore-submodules=none --untracked-files=no

## a dry run says nothing of line endings
history 2
echo '*.c text' >.gitattributes
printf 'one\r\n' >x.c
git add -n x.c
git add --dry-run -v -A
stock config core.safecrlf true
git add -n x.c

## a name with a wildcard is a pattern, too
# in: files
# needs git: 2.55
repository
touch '*' '?' a bc 'b*'
git add -n '?'
git add 'b*'
git add '\*'
git ls-files

## in a submodule without a repository
# in: files
# exits: 128 128
repository
commit file
stock update-index --add --cacheinfo 160000,$(stock rev-parse HEAD),sub
mkdir -p sub/in
echo 1 >sub/in/file
git add sub/in/file
git -C sub/in add .

## files of attributes and ignored names that are named from the top
# in: files
# exits: 1
repository
printf 'a\r\n' >x.g
mkdir s
printf 'b\r\n' >s/y.g
touch s/z.o
echo '*.g text' >../attributes
echo '*.o' >../ignored
stock config core.attributesFile ../attributes
stock config core.excludesFile ../ignored
stock config advice.addIgnoredFile false
cd s
git hash-object ../x.g y.g
git add y.g z.o
git ls-files -s

## attribute files with lines that are ignored
# state: no-fsck
history 2
mkdir -p .git/info
long=$(printf '%2100s' x | tr ' ' a)
cat >.gitattributes <<EOF
# !no te?xt
!negative text
  !negative te?xt
$long text
one builtin_one
two text -builtin_two bad?
three -foo/bar text
[attr]good text builtin_three
[attr]-bad text
[attr]
four -
five =x
six a=b=c -text=4 !text=3
"quoted !\\" one" te,xt
"unquoted te;xt
seven	tab.ok	a_-9	+bad
eight
EOF
printf 'nine text\r\nten te?xt\r\n' >>.gitattributes
printf '\357\273\277# with a mark\n[attr]m text\nx bad?name\n' >dir1/.gitattributes
printf 'a\r\n' >two
cp two nine
cp two dir1/x
git add .
git ls-files --eol two nine dir1/x
printf 'in ba?d\n' >.git/info/attributes
git hash-object --path=two two
echo 'user us?er' >mine
git -c core.attributesFile=mine hash-object --path=dir1/x two

## pathspecs are read before a broken index
# exits: 128 128 128 128
# masks: words
history 1
cp .git/index saved
echo broken >.git/index
git add
git add ''
git add ':(nothing)a'
git add --pathspec-from-file=nothing
git add .
mv saved .git/index

## how much of a pathspec has no wildcards
# exits: 128 128 128 128
repository
mkdir d
echo 1 >d/a
echo 2 >'d/*'
git add -n ':(prefix:0)d'
git add -n ':(prefix:2)d/?'
git add -n ':(prefix:3)d/*'
git add -n ':(prefix:,icase)D' ':(top,prefix:1)d'
git add -n ':(prefix:-1)./d' ':(prefix: +1)d'
git add -n ':(prefix:1,icase)D'
git add -n ':(prefix:1x)d'
git add -n ':(prefix)d'
git add -n ':(prefix:1'

## an index is split or joined as core.splitIndex says
history 3
for command in 'add -u' 'add dir1' 'add --refresh dir1' 'update-index dir1/file1' 'update-index' 'stash -q'; do
    stock update-index --split-index
    git -c core.splitIndex=false $command
    stock rev-parse --shared-index-path | wc -l
    stock update-index --no-split-index
    git -c core.splitIndex=true $command
    stock rev-parse --shared-index-path | wc -l
done
stock update-index --no-split-index
rm -f .git/sharedindex.*

## an index that stays sparse is not split
# state: no-fsck
# exits: 128 128 128 128 128 128 128
history 3
stock sparse-checkout set --cone --sparse-index dir1
stock config advice.sparseIndexExpanded false
stock config advice.addEmptyPathspec false
echo x >dir1/new
git update-index --split-index
git -c core.splitIndex=false update-index --split-index --add dir1/new
git update-index --split-index --no-split-index
git -c core.splitIndex=true add dir1/new
git -c core.splitIndex=true add -n nosuch
git -c core.splitIndex=true add
git -c core.splitIndex=true update-index --show-index-version
git -c core.splitIndex=true stash
git -c core.splitIndex=true stash create
git add dir1
ls .git
stock sparse-checkout set dir2
stock config --worktree index.sparse false
git update-index --split-index
stock rev-parse --shared-index-path | wc -l
stock update-index --no-split-index
rm -f .git/sharedindex.*

## a blob that is missing is stored again if its file looks changed
# state: no-objects no-fsck
history 3
file=.git/objects/$(stock rev-parse HEAD:dir1/file1 | sed 's,..,&/,')
year=2000
for command in 'add dir1/file1' 'add -u' 'add -A' 'add -n dir1/file1' 'add -N dir1/file1' 'add --refresh dir1/file1' \
    'add --renormalize dir1/file1' 'update-index dir1/file1' 'update-index --info-only dir1/file1'; do
    year=$((year + 1))
    rm -f "$file"
    touch -d "$year-01-01" dir1/file1
    git $command
    echo "$command: $(ls "$file" 2>/dev/null)"
done
rm -f "$file"
git update-index dir1/file1
git add dir1/file1
ls "$file" 2>/dev/null
git add --renormalize dir1/file1

## what is outside of a sparse checkout must have the attributes that are asked for
# needs git: 2.55
# exits: 128 1 128 1 128 128 1 1
history 3
stock update-index --skip-worktree dir1/file1
git add ':(attr:filter=f)'
echo '* filter=f' >.gitattributes
git add -u ':(attr:filter=g)dir1/file1'
git add ':(attr:filter=f)dir1/file1'
git add ':(attr:filter=g)dir1/file1'
git add ':(attr:filter=g)nosuch'
git add -u ':(attr:filter=f)dir1/file1'
git add -u ':(attr:filter=g)'
git add --refresh ':(attr:filter=g)'
git add --refresh ':(attr:filter=f)dir1/file1'
echo '/dir1/* filter=f' >.gitattributes
git add ':(attr:filter=f)dir1'
git add ':(attr:-filter)dir1'

## pathspecs that refresh nothing
# exits: 128 128 128 128
repository
git add --refresh .
git add --refresh :/
git add --refresh ':(glob)'
git add --refresh ':(attr:a)' .

## a nested repository is a directory of a sparse checkout
# needs git: 2.55
# exits: 1 1 1 1
history 3
for name in other dir1/sub dir3; do
    stock init -q $name
    (cd $name; commit x)
done
stock sparse-checkout set --cone dir1
git add other
git add dir1/sub 2>/dev/null
git add other/ dir3
git add -A
stock ls-files -s
git add --sparse other 2>/dev/null
stock ls-files -s
stock reset -q
stock sparse-checkout set --no-cone /dir1 /dir3/
git add dir3 2>/dev/null
git add .
stock ls-files -s

## variables of filters
history 1
mkdir deep
printf '#!/bin/sh\necho "${GIT_PREFIX-none} ${GIT_WORK_TREE+set} ${GIT_DIR+set} $GIT_CONFIG_PARAMETERS" >&2\ncat\n' >filter
chmod +x filter
echo '*.f filter=x' >.gitattributes
stock config filter.x.clean ./filter
echo 1 >deep/a.f
cd deep
git add a.f
git hash-object a.f
git -C .. hash-object deep/a.f
git -c a.b=c --git-dir=../.git --work-tree=.. hash-object a.f
cd ..
git -c filter.x.clean='no-such-filter %f' hash-object deep/a.f

## a conflict is said while the index is refreshed
conflict
git add --refresh .
git add --refresh -v .
git add --refresh dir2

## pathspecs by the mode of files
# needs git: 2.55
# in: sha1 sha256
# exits: 128 1 128
repository
commit a
commit b
ln -s a link
mkdir dir
echo 1 >dir/file
stock add dir/file
chmod +x b
echo 2 >new
echo 3 >dir/new
mkdir untracked
echo 4 >untracked/file
git add -n ':(attr:builtin_objectmode=100644)'
git add -n ':(attr:builtin_objectmode=100755)'
git add -n ':(attr:builtin_objectmode=120000)'
git add -n ':(attr:builtin_objectmode=040000)'
git add -n ':(attr:builtin_objectmode=40000)dir/*'
git add -n ':(attr:builtin_objectmode)'
git add -n ':(attr:-builtin_objectmode)'
git add -n ':(attr:!builtin_objectmode)'
git add -n . ':(exclude,attr:builtin_objectmode=120000)'
git add -u ':(attr:builtin_objectmode=100755)'
stock ls-files -s
echo changed >>a
echo changed >>b
git update-index --again ':(attr:builtin_objectmode=100755)'
stock status --short
git stash push ':(attr:builtin_objectmode=120000)'
git stash push ':(attr:builtin_objectmode=100755)'
git stash push -u ':(attr:builtin_objectmode=120000)'
stock status --short
rm b
git add -u ':(attr:builtin_objectmode=100644)'

## no attribute file sets the mode
# masks: words
# needs git: 2.55
repository
commit a
echo '* builtin_objectmode=120000' >.gitattributes
git add -n ':(attr:builtin_objectmode=100644)'

## directories in the case that the index has
# exits: 128
repository
git config core.ignoreCase true
mkdir -p Dir/Sub dir/sub DIR/sub/x dir/SUB new NEW
echo 1 >Dir/Sub/one
git add .
echo 2 >dir/sub/two
echo 3 >DIR/sub/x/three
echo 4 >dir/four
echo 5 >dir/SUB/five
echo 6 >dir/sub/ONE
git add -n .
git add -v .
stock ls-files -s
echo 7 >new/a
echo 8 >NEW/b
git add -v new NEW
git add -v dir/sub/none
echo 9 >dir/sub/nine
git add -N dir/sub/nine
echo 10 >dir/sub/ten
git -c core.ignoreCase=false add dir/sub/ten
echo 11 >dir/sub/eleven
git update-index --add dir/sub/eleven
stock ls-files

## a damaged index is called as git calls it
# exits: 128 128 128 128 128 128 128 128 128 128
# state: no-index no-fsck
history 2
echo 1 >dir1/new
head -c 5 .git/index >short
cp short .git/index
git add .
git -C dir1 add new
git update-index --refresh
git write-tree
git stash
git -C .git write-tree
GIT_INDEX_FILE=.git/../short git write-tree
GIT_DIR=.git git add .
printf 'XXXX' >short
head -c 40 /dev/zero >>short
cp short .git/index
git stash
git -C dir1 stash list
git write-tree
rm .git/index

## wrong values of GIT_ADVICE and of variables of pathspecs
# needs git: 2.55
# exits: 128 128 128 1 128
history 1
echo dir1 >.gitignore
mkdir dir0
echo 1 >dir0/x
echo dir0 >>.gitignore
GIT_ADVICE=junk git add
GIT_ADVICE=junk git add dir0
GIT_ADVICE=junk git -c advice.addIgnoredFile=false add dir0
GIT_ADVICE=junk git --no-advice add dir0
GIT_ADVICE=junk git add .gitignore
GIT_LITERAL_PATHSPECS=junk git add
GIT_LITERAL_PATHSPECS=junk git add -A -n
GIT_LITERAL_PATHSPECS=junk git add .

## a tracked repository that is broken
# exits: 128 128 128 128
repository
commit a
repository gone
(cd gone && commit q)
mkdir sub
echo 'gitdir: ../gone/.git' >sub/.git
stock -c advice.addEmbeddedRepo=false add sub
mv gone there
git add -u
git add sub
git add --refresh sub
echo garbage >sub/.git
git add -u
rm sub/.git
mkdir sub/.git
git add sub
stock ls-files -s

## what is said of files that may have changed in the second of the index
# exits: 128 128 128 128 128 128 128
# state: no-objects no-fsck
repository
stock config core.trustCtime false
stock config filter.f.clean 'exit 1'
stock config core.autocrlf true
printf 'c filter=f\nd filter=f\nw working-tree-encoding=UTF-16\n' >attributes
printf 'x\n' | tee a b c d w >/dev/null
touch -d 2001-01-01 a b c d w
stock -c core.autocrlf=false add a b c d w
stock config core.attributesFile "$PWD/attributes"
# Each time, all files are as old as the index, which therefore does not say whether they have changed. An index that
# stays as it is is not written by packrace, so something is new each time.
racily() {
    echo "$*"
    touch -d 2001-01-01 .git/index
    "$@"
}
for what in '' a 'a b' c 'c d' 'w' .; do
    echo "$what" >>new
    racily git add new $what
    echo "$what" >>new
    racily git add -A -- new $what
    echo "$what" >>new
    racily git update-index --add new ${what%.}
done
racily git add -n a c
racily git add --refresh .
racily git add --refresh a d
racily git update-index --refresh
racily git update-index -q --really-refresh
racily git update-index --chmod=+x c a
racily git update-index --chmod=-x a
racily git add --renormalize a
stock config filter.f.required true
echo z >new
racily git add new
racily git update-index --refresh
racily git update-index new

## a directory of pathspecs that is not there
# exits: 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128
history 2
echo dir1/ignored >.git/info/exclude
mkdir dir1/empty dir1/ignored
for path in nope/x dir1/nope/x dir1/nope/ dir1/nope/y/x dir1/file1/x dir1/empty/nope/x dir1/ignored/nope/x 'dir1/nope/*' \
    'dir1/no*e/x' ':(icase)dir1/nope/x' 'dir1/nope/x dir1/nope/y/z' 'dir1/nope/x dir1/file1'; do
    git add $path
done
git add -n --ignore-missing dir1/nope/x
cd dir1
git add nope/x
git add ../nope/x
git add -f ignored/nope/x
git add -u nope/x
git stash push -u -- nope/x

## a sparse index that is expanded
# needs git: 2.55
# exits: 1 128
# state: no-index no-logs no-objects no-files no-fsck
mkdir -p in out/sub
for file in in/a out/b out/sub/c top; do echo $file >$file; done
repository
stock add .
stock commit -q -m one
stock sparse-checkout set --cone --sparse-index in
folded() {
    echo "$*"
    "$@"
    rm -rf out
    stock -c advice.sparseIndexExpanded=false reset -q --hard
    stock -c advice.sparseIndexExpanded=false sparse-checkout set --cone --sparse-index in
}
folded git add .
mkdir out
folded git add in
mkdir out
folded git update-index in/a
mkdir out
folded git stash create
mkdir out
folded git -c sparse.expectFilesOutsideOfPatterns=true add in
mkdir out
folded git -c advice.sparseIndexExpanded=false add in
mkdir out
folded git -c advice.sparseIndexExpanded=true add in
echo file >out
folded git add in
folded git -c core.sparseCheckout=false add in
folded git -c core.sparseCheckoutCone=false update-index in/a
folded git -c index.sparse=false add in
folded git add out
folded git update-index out/b in/a out/sub/c
folded git update-index --force-remove out/nope
folded git update-index --skip-worktree in/a
folded git update-index --no-skip-worktree out/b
folded git update-index --add --cacheinfo 100644,"$(stock rev-parse HEAD:top)",out/q
folded git update-index --add --cacheinfo 100644,"$(stock rev-parse HEAD:top)",in/q
printf '100644 %s\tout/b\n' "$(stock rev-parse HEAD:top)" | folded git update-index --index-info
folded git update-index --refresh
folded git update-index --assume-unchanged out
folded git stash push
folded git stash push in/a
folded git stash push -k -u in
for options in '' '-k' '-u'; do
    for path in '' in; do
        echo change >in/a
        folded git stash push $options -- $path
    done
done

## a sparse index that is expanded is sparse again
# state: no-objects no-fsck
# exits: 1 128
sparse_tree
stock config advice.updateSparsePath false
added() {
    echo "$*"
    git add "$@"
    sparse_state
}
echo x >in/new
added in/new
rm in/deep/b
added -A
mkdir -p out/sub out3/x
echo x >out/new
added out/new
added --sparse out/new
added --sparse --chmod=+x out/new
echo y >out/sub/c
added --sparse -u
rm -r out out3
added --sparse .
stock reset -q --hard
stock sparse-checkout reapply
mkdir out2
echo y >out2/d
added --sparse --renormalize .
stock fsck --no-dangling
stock sparse-checkout disable
stock status --short

## sparse patterns that are no cone
# exits: any
# state: no-work no-index no-objects no-pseudorefs no-logs no-files no-fsck
sparse_tree
stock config advice.updateSparsePath false
stock config --worktree index.sparse false
cp .git/info/sparse-checkout patterns
all() {
    echo x >>in/a
    git add in/a
    echo x >>in/a
    git update-index in/a
    echo x >>in/a
    git hash-object in/a
    stock add top 2>/dev/null
    git -c index.sparse=true write-tree
    git -c index.sparse=true add in/a
    git add out/new
}
mkdir -p out
echo x >out/new
set -f
while read -r line; do
    echo "# $line"
    printf '%s\n' $line >.git/info/sparse-checkout
    git add out/new
done <<'EOF'
/in/
/* !/*/ /in/
/* /*/ /a//b/ /// /a]/ /a\[/
/a\\b/ /a\\*/ /a\*/ !/a\*/*/
in/
/in
/i*/
/i[n]/
//
/
!
/a/*/
!/a
/a/ !/a/*/*/
!/**/
/a\/
/a\]/
/a\\**/
!/*
!/a/*/
/a/ !/a/*/ !/a/*/
/a/b/ !/a/*/
/a/ !/a/\*/
!/in/
/in/ !/in/*/ /in/
/A/ !/a/*/
EOF
set +f
printf '/in/\n  ab  \r\n' >.git/info/sparse-checkout
all
stock config --worktree --unset core.sparseCheckoutCone
all
stock config --worktree core.sparseCheckoutCone true
stock config --worktree core.sparseCheckout false
all
stock config --worktree core.sparseCheckout true
told() { "$@" 2>&1 | sort -u; }
rm -f out/new
echo x >>in/a
told git stash push
told git stash pop
told git stash create
cp patterns .git/info/sparse-checkout
echo x >out/new
all

## a sparse index needs a setting for cones
# state: no-objects no-fsck
sparse_tree
stock config --worktree --unset core.sparseCheckoutCone
echo x >>in/a
git add in/a
sparse_state
git update-index --split-index
sparse_state
git update-index --no-split-index
stock config --worktree core.sparseCheckoutCone true
echo x >>in/a
git update-index in/a
sparse_state

## paths outside, some of which cannot be reached
# exits: any
history 2
for path in /nonexistent/x /nonexistent /nonexistent/ /dev/null/x ../x /tmp/../nonexistent/x; do
    git add $path
    git update-index --add $path
    git stash push $path
done

## what should name ignored files is a directory
# exits: 128 128
# masks: words
repository
echo 1 >file
rm -f .git/info/exclude
mkdir .git/info/exclude
git add file
git add -n .
rmdir .git/info/exclude
mkdir file.d .gitignore
git -c core.excludesFile=nothing add -n file

## attributes of a tree that is named in other ways than by a ref
# exits: any
history 2
printf '*.x text eol=lf\n*.d -delta\n' >.gitattributes
stock add .gitattributes
stock commit -q -m attributes
stock rm -q .gitattributes
stock commit -q -m gone
printf 'a\r\nb\r\n' >a.x
for tree in HEAD~1 main~1 'HEAD~1^{tree}' HEAD@{1} :/attributes HEAD HEAD~9 none; do
    git -c attr.tree="$tree" hash-object a.x
    git --attr-source="$tree" hash-object a.x
    GIT_ATTR_SOURCE="$tree" git hash-object -w a.x
    git -c attr.tree="$tree" add a.x
    git ls-files -s a.x
    stock rm -q -f --cached a.x
    git -c attr.tree="$tree" update-index --add a.x
    git ls-files -s a.x
    git -c attr.tree="$tree" stash create | git show --format=%s --stat --stdin
    stock rm -q -f --cached a.x
done

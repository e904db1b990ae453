# Changes put aside and brought back. What `git reset`, which git starts for it, leaves in HEAD's reflog and beside refs is a session of its own.
# state: no-log-of-HEAD no-pseudorefs

## pushed and popped
# in: files reftable sha1
history 3
echo changed >dir1/file1
git stash
git status --short
git stash list
git stash pop
git status --short

## with a message, applied and dropped
history 3
echo changed >dir1/file1
git stash push -m 'what I did'
git stash list
git stash apply
git stash drop
git stash list

## what is staged comes back staged
history 3
echo staged >dir1/file1
git add dir1/file1
echo unstaged >dir2/file2
git stash -q
git stash pop --index
git status --short

## staged changes stay
history 3
echo staged >dir1/file1
git add dir1/file1
echo unstaged >dir2/file2
git stash -k
git status --short
git stash show -p

## only what is staged
history 3
echo staged >dir1/file1
git add dir1/file1
echo unstaged >dir2/file2
git stash push --staged
git status --short
git stash pop

## untracked files too
history 2
echo new >new
echo changed >dir1/file1
git stash -u
git status --short
git stash show --include-untracked
git stash show --only-untracked
git stash pop
git status --short

## ignored files too
history 2
echo '*.log' >.gitignore
stock add .gitignore
stock commit -qm ignore
echo 1 >a.log
git stash --all
git status --short --ignored
git stash pop
git status --short --ignored

## paths
# exits: 1
history 3
echo changed >dir1/file1
echo changed >dir2/file2
git stash push dir1
git status --short
git stash pop
git stash push -- nothing
git stash push -m 'a path' -- dir2/file2
git stash list

## several
history 2
for n in 1 2 3; do echo "$n" >dir1/file1; git stash push -q -m "number $n"; done
git stash list
git stash show stash@{1}
git stash drop 1
git stash list
git stash pop stash@{1}
git stash list

## entries by date
# exits: 128 1 1
history 2
for n in 1 2 3 4; do tick; echo "$n" >dir1/file1; git stash push -q -m "number $n"; done
git stash show -p 'stash@{2005-04-07 22:17:00 +0000}'
git stash show -p 'refs/stash@{1112912233}'
git stash apply -q 'stash@{2 days ago}'
stock checkout -q -f
git stash show 'stash@{1112912233}^'
git stash drop 'stash@{2005-04-07 22:16:30 +0000}'
git stash list
git stash pop -q 'stash@{2005-04-07 22:16:50 +0000}'
stock checkout -q -f
git stash branch other 'stash@{1.hour.ago}'
git stash list
git stash show 'stash@{no date}'
git stash show 'stash@{all}'

## nothing to put aside
# exits: 1 1
history 1
git stash
git stash pop
git stash list
git stash show

## in a repository without commits
# exits: 1
repository
echo 1 >a
git add a
git stash

## conflicts
# exits: 1
# state: no-log-of-HEAD no-pseudorefs no-objects no-fsck
history 2
echo mine >dir1/file1
git stash -q
echo theirs >dir1/file1
stock commit -qam theirs
git stash pop
git status --short
cat dir1/file1
git stash list

## files in the way
# exits: 1 1
history 2
echo mine >dir1/file1
git stash -q
echo other >dir1/file1
git stash pop
stock checkout -q .
echo new >new
git stash -q -u
git stash list
echo in the way >new
git stash pop
git stash list

## shown in many ways
history 3
echo changed >dir1/file1
echo more >dir2/file2
git stash -q
git stash show
git stash show --stat
git stash show -p
git stash show --numstat

## shown beside a damaged index
# state: no-log-of-HEAD no-pseudorefs no-index no-work no-fsck
history 2
echo changed >dir1/file1
git stash -q
echo damaged >.git/index
git stash show -p
git stash list
git stash show --name-only
git stash show --name-status
git stash show --shortstat
git -c stash.showStat=false -c stash.showPatch=true stash show

## shown with options of git diff
# exits: 1
history 2
printf '1\n2\n  changed\n' >dir1/file1
git stash -q
git stash show --patience
git stash show -p -U0
git stash show -U1
git stash show --word-diff
git stash show --color-words
git stash show --raw
git stash show -w -p
git stash show --stat=40
git stash show --diff-filter=D
git stash show --no-patch
git stash show --numstat -z
git stash show --
git stash show --color stash@{0}
git stash show --src-prefix=old/ 0
git -C dir1 stash show --relative -p
git stash show --exit-code
git -C dir2 stash show --diff-algorithm=histogram --output=out
cat dir2/out

## shown as the user has set it
history 2
printf '1\n2\n  changed\n' >dir1/file1
git stash -q
git -c diff.noPrefix=true stash show -p
git -c diff.context=0 stash show -p
git -c diff.algorithm=patience stash show -p
git -c diff.statNameWidth=3 stash show
git -c diff.relative=true -C dir2 stash show
git -c color.ui=always stash show -p
git -c color.diff=always stash show
git -c stash.showPatch=true -c diff.interHunkContext=9 stash show
git -c diff.tool=any -c color.ui=auto stash show -p
GIT_DIFF_OPTS=-u0 git stash show -p
COLUMNS=30 git stash show --stat

## shown as attributes say
history 2
echo 'file1 diff=upper' >.gitattributes
echo changed >dir1/file1
echo changed >dir2/file2
git stash -q
git config diff.upper.textconv 'tr a-z A-Z <'
git stash show -p
git stash show
git stash show --name-only
echo '*2 -diff' >dir2/.gitattributes
git stash show -p
git stash show --numstat

## listed with options of git log
# exits: 1 1
history 2
for n in 1 2 3; do
    tick
    echo "$n" >dir1/file1
    git stash -q
done
git stash list -1
git stash list --format=%gd:%s
git stash list --oneline
git stash list --pretty=oneline
git stash list --format='%gD %H %P %as' --skip=1
git stash list --date=iso
git stash list --until='2005-04-07 15:16:00 -0700'
git stash list --since=1.day.ago
git stash list --date=bogus
git stash list --format=bogus

## listed with other options of git log
# exits: 1 1 1 1 1
history 2
for n in 1 2 3; do
    tick
    echo "$n" >dir1/file1
    git stash -q -m "number $n"
done
git stash list -p
git stash list --cc
git stash list -p --first-parent -1
git stash list --graph
git stash list --stat -2
git stash list --pretty=fuller --no-walk
git stash list --pretty=ful -1
git stash list --format='%gd%d %N|%<(9)%gs|%w(20)%B'
git stash list --grep-reflog='number 2'
git stash list --oneline --decorate
git stash list -- dir1
git stash list --format=bogus
git stash list --no-such
git stash list nothing

## listed as the user has set it
history 2
echo changed >dir1/file1
git stash -q
git -c log.decorate=full stash list --oneline
git -c log.abbrevCommit=true stash list --pretty=oneline
git -c color.ui=always stash list --oneline
git -c color.ui=always stash list --format='%C(auto)%h %Cred%gd%Creset'
git -c color.ui=auto stash list --oneline
git -c pretty.own='%h%d' stash list --pretty=own

## a branch of it
history 3
echo changed >dir1/file1
git stash -q
git stash branch topic
git status --short
git stash list
git symbolic-ref HEAD

## a branch of it where the index is gone
# exits: 1
history 2
echo changed >dir1/file1
stock stash -q
rm .git/index
git stash branch other
git stash list
rm -r dir*
rm -f .git/index
git stash branch other
git stash list

## a branch that is there already
# exits: 1
history 2
echo changed >dir1/file1
git stash -q
git stash branch main

## created and stored by hand
history 2
echo changed >dir1/file1
stash=$(git stash create 'a message')
git log --format=%s -1 "$stash"
git stash store -m 'stored by hand' "$stash"
git stash list
git status --short

## storing what is no stash
# exits: 128 1
history 1
git stash store HEAD
git stash store nothing

## names that are no stashes
# exits: 128 1 128 128 1
history 1
echo changed >dir1/file1
git stash -q
git stash drop stash@{5}
git stash pop nothing
git stash apply HEAD
git stash show main
git stash drop stash@{x}

## all are cleared
# exits: 1
history 2
for n in 1 2; do echo "$n" >dir1/file1; git stash -q; done
git stash clear more
git stash clear
git stash list

## words without a verb
# exits: 128
history 2
echo changed >dir1/file1
git stash -- dir1/file1
git stash list
git stash bogus

## save, as it was called
history 2
echo changed >dir1/file1
git stash save 'old words'
git stash list
echo changed >dir1/file1
git stash save -q -k more words here
git stash list

## unknown options
# exits: 129 129 129
# masks: usage
history 1
git stash push --bogus
git stash pop --bogus
git stash drop --bogus
git stash list --bogus-option

## an index that is locked
# masks: words
# exits: 1 1 1
history 1
echo changed >dir1/file1
git stash -q
echo changed >dir1/file1
: >.git/index.lock
git stash
git stash create
git stash apply

## names of the sides
# needs git: 2.55
# state: no-log-of-HEAD no-pseudorefs no-objects no-fsck
# exits: 1 1
history 2
echo ours >dir1/file1
stock stash -q
echo theirs >dir1/file1
stock commit -q -a -m theirs
git -c merge.conflictStyle=diff3 stash apply --label-ours=A --label-theirs='B b' --label-base=C
cat dir1/file1
stock reset -q --hard
git stash apply --label-ours= --label-theirs=
cat dir1/file1

## stash.index
# needs git: 2.55
history 1
echo staged >dir1/file1
stock add dir1/file1
echo changed >dir1/file1
git stash -q
git -c stash.index=true stash apply -q
git status --short
stock reset -q --hard
git -c stash.index=true stash pop -q --no-index
git status --short

## a filter process and where blobs come from
repository
commit file
cat >.git/filter <<'END'
#!/bin/sh
# Answers one file after the other, and notes what it is told.
packet() { printf '%04x%s\n' $((${#1} + 5)) "$1"; }
line() {
    read -r size <<EOF
$(dd bs=1 count=4 2>/dev/null)
EOF
    [ "$size" = 0000 ] && return 1
    [ -n "$size" ] || exit 0
    text=$(dd bs=1 count=$((0x$size - 4)) 2>/dev/null)
}
while line; do :; done
packet git-filter-server
packet version=2
printf 0000
while line; do offered="$offered $text"; done
echo "offered:$offered" >>.git/told
packet capability=clean
packet capability=smudge
printf 0000
while :; do
    told=
    while line; do told="$told $text"; done
    echo "$told" >>.git/told
    content=
    while line; do content="$content$text"; done
    packet status=success
    printf 0000
    packet "$content"
    printf 0000
    printf 0000
done
END
chmod +x .git/filter
stock config filter.x.process .git/filter
stock config filter.x.required true
echo 'file filter=x' >.git/info/attributes
echo changed >file
git stash
git stash pop -q
grep -e offered -e smudge .git/told | sort -u
rm .git/told

## a file outside of the sparse checkout that is there
history 6
stock sparse-checkout set dir1
mkdir -p dir2
echo new >dir2/file2
git stash
git stash pop
git ls-files -t

## files that a sparse checkout leaves out since
repository
mkdir dir1 dir2
echo 1 >dir1/file
echo 1 >dir2/changed
echo 1 >dir2/staged
stock add .
stock commit -q -m Message
echo 2 >dir1/file
echo 2 >dir2/changed
echo 2 >dir2/staged
stock add dir2/staged
git stash -q
stock sparse-checkout set dir1
git stash apply -q
stock ls-files -t -s
stock status --short
cat dir2/changed dir2/staged

## a deleted and a new file
history 3
rm dir1/file1
echo new >new
git add new
git stash
git status --short
git stash pop --index
git status --short

## a file in place of a directory
# differs: gix-merge: the deleted directory is not staged, and the file is left untracked
history 3
stock rm -q -r dir1
echo file >dir1
git add dir1
git stash
git stash pop
git status --short

## permissions and links
history 2
chmod +x dir1/file1
rm dir2/file2
ln -s target dir2/file2
git stash
git stash show --stat
git stash pop
git status --short

## in a subdirectory
history 3
echo changed >dir1/file1
echo changed >dir2/file2
cd dir1
git stash push .
git stash list
git stash pop

## quietly
history 2
echo changed >dir1/file1
git stash push -q
git stash apply -q
git stash drop -q
git stash list

## with unmerged entries
# exits: 1
# says: needs merge
# state: no-log-of-HEAD no-pseudorefs no-work
conflict
git stash

## pathspecs from a file
history 3
echo changed >dir1/file1
echo changed >dir2/file2
echo dir1/file1 >../list
git stash push --pathspec-from-file=../list
git status --short

## the whole in a linked work tree
history 2
stock worktree add -q linked
cd linked
echo changed >dir1/file1
git stash
git -C .. stash list
git stash pop

## intent to add
# differs: the commit of the index is not stored when the command fails
# exits: 1
history 1
echo new >new
git add -N new
git stash

## what it leaves beside refs
# differs: AUTO_MERGE, and the line of HEAD's reflog that says nothing
# state: 
history 2
echo changed >dir1/file1
git stash
git stash pop

## what the user chooses
# state: no-logs
history 2
echo changed >>dir1/file1
echo changed >>dir2/file2
printf 'y\nn\n' | git stash -p
git status --short
git stash list
printf 'y\n' | git stash push --patch -m chosen dir2
git stash list
git status --short

## what the user chooses, without push
# needs git: 2.55
# state: no-logs
history 2
echo more >>dir1/file1
printf 'y\n' | git stash -qp dir1
git stash list

## pathspecs by attribute
# exits: 1
history 2
echo '*1 kind=one' >.gitattributes
stock add .gitattributes
stock commit -q -m attributes
echo changed >dir1/file1
echo changed >dir2/file2
git stash push ':(attr:kind=one)'
git status --short
git stash push ':(attr:kind=two)'
git stash pop

## an entry of the log is stored again
# exits: 128 1
history 2
for n in 1 2; do tick; echo "$n" >dir1/file1; git stash push -q -m "number $n"; done
git stash store 'stash@{1}'
git stash store -m other 'refs/stash@{0}'
git stash store 'stash@{9}' 2>/dev/null || git stash store nothing
git stash list

## entries are exported, fetched by another repository and imported there
# needs git: 2.51
# in: files reftable
# masks: progress
# state: no-objects no-fsck no-log-of-HEAD no-config
history 2
for n in 1 2 3; do tick; echo "$n" >dir1/file1; echo "$n" >"new $n"; git stash push -q -u -m "number $n"; done
git stash export --print
git stash export --print 1
git stash export --print 'stash@{2}' 0 | stock cat-file --batch
git stash export --to-ref refs/exported
git cat-file commit refs/exported
git cat-file commit refs/exported~3
git init -q other
cd other
git fetch -q .. refs/exported:refs/exported
git stash import refs/exported
git stash list
git stash import refs/exported
git stash list
git stash show -u 2

## exports of no entries, of one with a message of several lines, and in another encoding
# needs git: 2.51
# state: no-objects no-fsck no-log-of-HEAD
history 2
git stash export --to-ref refs/none
git stash import refs/none
git stash list
for message in 'two
lines

and more

' ''; do
    echo "$message" >dir1/file1
    entry=$(git stash create "$message")
    git stash store -m "stored" "$entry"
    git cat-file commit "$(git stash export --print 0)"
done
git config i18n.commitEncoding ISO-8859-1
git stash store -m latin "$(printf 'tree %s\nparent %s\nparent %s\nauthor A <a> 1 +0100\ncommitter C <c> 2 +0200\nencoding ISO-8859-1\n\ncaf\351' \
    "$(git rev-parse stash^{tree})" "$(git rev-parse stash^1)" "$(git rev-parse stash^2)" | git hash-object -t commit -w --stdin)"
git cat-file commit "$(git stash export --print 0 2>/dev/null)"
git config unset i18n.commitEncoding
git cat-file commit "$(git stash export --print 0 2>/dev/null)"
git stash export --to-ref refs/heads/branch 2>/dev/null
git stash export --to-ref PSEUDO 2>/dev/null
git tag -m annotated tag refs/heads/branch
git stash clear
git stash import tag
git stash list

## exports that cannot be
# needs git: 2.51
# state: no-objects no-fsck no-log-of-HEAD
# exits: 1 1 1 129 1 1 1 1 128 128
history 2
echo 1 >dir1/file1
git stash -q
git stash export
git stash export --print --to-ref refs/exported
git stash export --to-ref refs/exported --no-to-ref
git stash export --to-ref 2>/dev/null
git stash export --print 7
git stash export --print HEAD
git stash export --print nothing
git stash export --print 'stash@{0}' 'stash@{1}'
git stash export --to-ref a..b
git stash export --to-ref refs/heads/main.lock
git for-each-ref

## imports that cannot be
# needs git: 2.51
# state: no-objects no-fsck no-log-of-HEAD
# exits: 129 129 1 1 1 1 1 1 1 1 1 1 1
history 2
echo 1 >dir1/file1
git stash -q
git stash export --to-ref refs/exported
empty=$(git rev-parse 'refs/exported^{tree}')
start=$(git rev-parse refs/exported~1)
entry=$(git rev-parse stash)
git stash import 2>/dev/null
git stash import refs/exported refs/exported 2>/dev/null
git stash import nothing
git stash import "$empty"
git stash import HEAD:dir1/file1
git stash import HEAD
git stash import stash
git stash import "$(echo 'git stash: x' | git commit-tree "$empty" -p "$start")"
git stash import "$(echo 'git stash: x' | git commit-tree "$empty" -p "$start" -p HEAD)"
git stash import "$(echo 'git stash: x' | git commit-tree "$empty" -p "$entry" -p "$start")"
git stash import "$(echo 'git stash: x' | git commit-tree 'HEAD^{tree}' -p "$start" -p "$entry")"
git stash import "$(echo 'no prefix' | git commit-tree "$empty" -p "$start" -p "$entry")"
other=$(git commit-tree "$empty" </dev/null)
git stash import "$(echo 'git stash: x' | git commit-tree "$empty" -p "$other" -p "$entry")"
git stash list

## what is where a directory was stays
# in: files
# exits: 1 1
# state: no-log-of-HEAD no-pseudorefs no-objects no-fsck
repository
mkdir -p d/e
echo 1 >d/e/f
stock add .
stock commit -q -m Message
echo 2 >d/e/f
git stash -q
rm -r d
echo precious >d
git stash pop
git stash branch other
cat d

## a stash ends a merge
# in: files reftable
# state: no-pseudorefs no-log-of-HEAD
repository
echo 1 >file
stock add .
stock commit -q -m 1
stock checkout -q -b other
echo 2 >file
stock commit -q -a -m 2
stock checkout -q main
echo 3 >file
stock commit -q -a -m 3
stock merge other >/dev/null
echo resolved >file
stock add file
git stash
ls .git | grep -e MERGE -e SQUASH
stock ls-files --resolve-undo
stock commit -q -m 'Nothing to commit'

## a stash ends a cherry-pick, one of paths does not
# in: files reftable
# state: no-pseudorefs no-log-of-HEAD
repository
echo 1 >file
echo 1 >other
stock add .
stock commit -q -m 1
stock update-ref CHERRY_PICK_HEAD main
echo 2 >file
echo 2 >other
git stash push -q -- file
stock rev-parse CHERRY_PICK_HEAD main
git stash -q
stock rev-parse -q --verify CHERRY_PICK_HEAD
git stash list

## merge programs that report a conflict
# in: files
# state: no-log-of-HEAD no-pseudorefs no-objects no-fsck
# exits: 1 1 1
repository
mkdir s
echo 1 >s/a
echo 's/a merge=mine' >.gitattributes
stock add .
stock commit -q -m Message
echo stashed >s/a
git stash -q
echo here >s/a
stock commit -q -a -m Changed
cd s
stock config merge.mine.driver 'echo "%P 100%% $(ls %O %A %B | wc -l)" "$(basename "$(pwd)")" >&2; cat %O %B >>%A; exit 1'
git stash apply
cat a
stock reset -q --hard
stock config merge.mine.driver 'exit 130'
git stash apply
stock config merge.mine.driver 'exit 1'
git stash pop
git ls-files -s
stock reset -q --hard
stock config merge.mine.driver 'cat %B >%A'
git stash pop
ls -A

## a file on one side, a link on the other
# in: files
# state: no-log-of-HEAD no-pseudorefs no-objects no-fsck
# needs git: 2.55
# exits: 1 1 1
repository
ln -s target link
ln -s target new
echo 1 >file
stock add link file
stock commit -q -m Message
rm link file
echo file >link
ln -s there file
stock add new
git stash -q
ln -sfn elsewhere link
echo 2 >file
stock commit -q -a -m Changed
git stash apply
git ls-files -s
readlink link file
stock reset -q --hard
rm -f *~*
echo new >new
stock add new
stock commit -q -m New
git stash apply -q
git ls-files -s
echo taken >'link~Stashed changes'
stock add link~*
stock commit -q -a -m Taken
stock checkout -q HEAD~2 -- .
git stash apply

## line endings that changed since
# in: files
# state: no-log-of-HEAD no-pseudorefs no-objects no-fsck
repository
stock config merge.renormalize true
printf 'a\r\nb\r\nc\r\n' >text
stock add text
stock commit -q -m Message
printf 'a\r\nb\r\nstashed\r\n' >text
git stash -q
echo 'text text' >.gitattributes
stock add --renormalize . 2>/dev/null
stock add .gitattributes
printf 'here\nb\nc\n' >text
stock commit -q -a -m Changed
git stash pop
cat text

## files that cannot be merged, and nothing said
# in: files
# state: no-log-of-HEAD no-pseudorefs no-objects no-fsck
# needs git: 2.55
# exits: 1 1
repository
printf 'a\0b' >binary
echo 1 >unmerged
echo 'unmerged -merge' >.gitattributes
stock add .
stock commit -q -m Message
printf 'a\0c' >binary
echo 2 >unmerged
git stash -q
printf 'a\0d' >binary
echo 3 >unmerged
stock commit -q -a -m Changed
git stash apply -q
stock reset -q --hard
git stash apply

## a submodule alone
# in: files
repository
commit file
stock init -q sub
stock -C sub commit -q --allow-empty -m 1
stock add sub 2>/dev/null
git stash
git stash -u
git status --short

## the current directory stays
# in: files
repository
commit file
mkdir -p new/here
echo 1 >new/here/file
cd new/here
git stash -u
pwd | sed 's,.*/new/,new/,'

## conflicts that were resolved before
# in: files
# state: no-log-of-HEAD no-pseudorefs no-objects no-fsck
# exits: 1 1
repository
stock config rerere.enabled true
echo 1 >file
stock add .
stock commit -q -m Message
echo stashed >file
git stash -q
echo here >file
stock commit -q -a -m Changed
git stash apply
echo both >file
stock rerere
stock reset -q --hard
git stash apply
cat file

## a conflict outside of the sparse checkout
# in: files
# state: no-log-of-HEAD no-pseudorefs no-objects no-fsck
# exits: 1
history 3
mkdir -p dir1 dir2
echo 1 >dir1/f
echo 1 >dir2/f
stock add .
stock commit -q -m Directories
echo 2 >dir2/f
git stash -q
echo 3 >dir2/f
stock commit -q -a -m Changed
stock sparse-checkout set dir1
git stash pop
cat dir2/f
git ls-files -t

## paths through a link
# in: files
repository
mkdir d
echo 1 >d/a
stock add .
stock commit -q -m Message
ln -s work ../link
echo 2 >d/a
git add "$PWD/../link/d"
echo 3 >d/a
git stash push -- "$PWD/../link/../link/d/a"

## on a commit that is replaced
# in: files
# state: no-log-of-HEAD no-pseudorefs no-objects no-fsck
repository
echo 1 >file
stock add file
stock commit -q -m 1
echo 2 >file
stock commit -q -a -m 2
stock replace HEAD $(echo Replaced | stock commit-tree HEAD~1^{tree} -p HEAD~1)
echo 3 >file
git stash
cat file
git stash list
git stash show -p
git stash pop

## a file that stands for a link
# in: files
# state: no-log-of-HEAD no-pseudorefs
repository
ln -s a link
stock add .
stock commit -q -m Message
stock config core.symlinks false
rm link
echo b >link
git stash
git stash pop

## an index with an entry without an object
# exits: 1 1 1 1 1
history 1
echo one >dir1/file1
stock stash -q
echo "100644 $(printf '%040d' 0) 0	new" | GIT_ALLOW_NULL_SHA1=1 stock update-index --index-info 2>/dev/null
git stash pop
git stash apply
echo two >dir1/file1
git stash
git stash create
git stash push --staged
stock read-tree HEAD

## applied while something else is going on
# exits: 1
# state: no-objects no-fsck no-log-of-HEAD no-pseudorefs
history 6
echo more >>dir1/file1
git stash -q
stock bisect start -q HEAD HEAD~3 >/dev/null
git stash apply
stock reset -q --hard
stock bisect reset >/dev/null 2>&1
stock checkout -q -b other HEAD~2
echo other >dir2/file0
echo other >dir0/file3
stock commit -qam other
stock rebase main >/dev/null 2>&1
stock add .
cd dir1
git stash apply
git -c status.branch=true -c status.showStash=true -c color.status=always -c color.status.changed=blue stash pop

## empty names
# exits: 128 128 128 128 128
# state: no-log-of-HEAD no-pseudorefs no-objects no-fsck
history 2
git -c user.name= stash
echo changed >dir1/file1
GIT_AUTHOR_NAME= git stash
GIT_COMMITTER_NAME= git stash create
GIT_COMMITTER_NAME= git stash push --staged
unset GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL
git -c user.name= -c user.email=u@example.com stash
git -c user.name=, stash

## names that nobody says
history 2
echo changed >dir1/file1
EMAIL=e@example.com
export EMAIL
unset GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL
for name in user.x=x user.name=n user.email=m user.useConfigOnly=true; do
    stock log -1 --format='%an <%ae> %cn <%ce>' "$(git -c "$name" stash create)"
done
git -c author.name=n -c committer.email=m stash
stock log -1 --format='%an <%ae> %cn <%ce>' stash

## a directory is staged in place of a file or a link, and the other way around
# needs git: 2.55
history 3
rm dir1/file1
mkdir dir1/file1
echo 1 >dir1/file1/a
git add -A
git stash push --staged
git status --short
rm -r dir1
ln -s dir2 dir1
git add -A
git stash push --staged
git status --short
ln -s dir2 link
stock add link
stock commit -q -m link
rm link
mkdir link
cp dir2/file2 link
git add -A
git stash push --staged
git status --short

## a directory that is staged in place of a file has changes
# exits: 1 1
history 3
rm dir1/file1
mkdir dir1/file1
echo 1 >dir1/file1/a
git add -A
echo 2 >dir1/file1/a
git stash push --staged
tick
git stash push --staged --quiet
git status --short

## what is staged beside what is meant to be added
# exits: 1 1
# state: no-log-of-HEAD no-pseudorefs no-objects no-fsck
history 3
echo new >new
git add -N new
git stash push --staged
git stash
echo changed >dir1/file1
git add dir1/file1
echo changed >dir2/file2
git stash push --staged
git status --short
git stash show

## the hook of a checkout
# exits: 1
history 3
echo changed >dir1/file1
git stash -q
stock checkout -q -b older HEAD~1
cat >.git/hooks/post-checkout <<'H'
#!/bin/sh
echo "$@"
test "$3" = 1 && test -z "$fails"
H
chmod +x .git/hooks/post-checkout
fails=yes
export fails
git stash branch one
git stash list
fails=
git stash branch two
git stash list

## a hook that refuses a branch of it
# exits: 1 1
# needs git: 2.55
history 2
echo changed >dir1/file1
git stash -q
cat >.git/hooks/reference-transaction <<'H'
#!/bin/sh
grep -q "$refused" && test "$1" = prepared && exit 1
exit 0
H
chmod +x .git/hooks/reference-transaction
refused=refs/heads/one
export refused
git stash branch one
refused=HEAD
git stash branch two

## branches by other names
# state: no-logs no-pseudorefs
history 2
stock symbolic-ref refs/heads/other refs/heads/main
stock symbolic-ref HEAD refs/heads/other
echo changed >dir1/file1
git stash
git stash branch one
stock reset -q --hard
stock update-ref refs/x/y HEAD
stock symbolic-ref HEAD refs/x/y
echo changed >dir1/file1
git stash push -m words
git stash branch two
cut -f2 .git/logs/HEAD | grep checkout

## a list that is locked
# exits: 1 1 1 1 1 1 1
# needs git: 2.55
history 2
echo changed >dir1/file1
made=$(git stash create)
touch .git/refs/stash.lock
git stash
git stash --quiet
git stash store "$made"
git stash store --quiet "$made"
rm .git/refs/stash.lock
git stash
touch .git/refs/stash.lock
git stash drop
git stash pop
git stash clear
rm .git/refs/stash.lock

## an index that cannot be locked
# exits: 1 1 1 1 1
# needs git: 2.55
history 2
echo changed >dir1/file1
stock stash -q
echo changed >dir1/file1
for verb in push create apply pop 'branch one'; do
    GIT_INDEX_FILE=none/index git stash $verb
done

## a branch of it in the middle of something else
# exits: 1 1
# needs git: 2.55
conflict
stock merge --abort
echo changed >dir2/file2
stock stash -q
stock merge other >/dev/null 2>&1
git stash branch one
stock reset -q --hard
touch .git/index.lock
git stash branch one
rm .git/index.lock

## filters that fail
# exits: 1 1 1 1 128 1 1
# state: no-log-of-HEAD no-pseudorefs no-objects no-fsck
history 3
stock config filter.f.clean false
stock config filter.f.required true
echo 'dir1/* filter=f' >.gitattributes
echo more >>dir1/file1
git stash
git stash create
git stash --quiet
git stash push --staged
sed s/line/lime/ dir2/file2 >dir2/new
mv dir2/new dir2/file2
echo 'dir2/* filter=f' >.gitattributes
git stash
echo 'new filter=f' >.gitattributes
echo new >new
git stash -u
git stash -u --quiet

## pathspecs that match nothing
# exits: 1 1 1 1 1
# needs git: 2.55
history 3
mkdir dir1/below
cd dir1/below
git stash push -- '*.txt' ../none ../../none ../below/none './a/../b' :/none ':(top,icase)none' "$PWD/none"
GIT_LITERAL_PATHSPECS=1 git stash push -- '*.txt' ':(icase)none'
git stash push -- none ':!a' ':/!b' ':(exclude,icase)../c'
git stash push -- ../file1 none ':!a'
git stash push -- ../file1 ':!a'
git stash push -- '..' ':(glob)../*.z'

## entries without a name
# exits: 1 1 1 1
history 2
echo changed >dir1/file1
git stash -q
git stash show ''
git stash drop ''
git stash apply ''
git stash branch one ''

## what stands behind -- is the message, with the dashes
history 1
for options in '-- x' 'x --' -- '-- -- x' 'x -- y' '-q -- -q' '-m x --'; do
    echo "$options" >dir1/file1
    git stash save $options
done
git stash list
echo changed >dir1/file1
for words in '-- x' -- '-- -- x' 'x -- y'; do
    stock log -1 --format=%s "$(git stash create $words)" --
done

## staged changes near others are taken alone
# exits: 1
history 1
seq 20 >a
stock add a
stock commit -qm a
sed -i s/10/staged/ a
git add a
sed -i s/12/other/ a
git stash push --staged
cat a
git stash drop
stock reset -q --hard
sed -i s/10/staged/ a
git add a
sed -i s/11/other/ a
git stash push --staged

## staged changes are put aside and stay in the index
history 3
stock rm -q dir1/file1
echo new >new
echo changed >>dir2/file2
stock add new dir2/file2
stock mv dir0/file3 moved
echo meant >meant
stock add -N meant
git stash push --staged --keep-index
git status --short
git ls-files -s

## a status that fails holds nothing up
history 1
echo changed >dir1/file1
git stash
git -c status.short=bad stash pop
git status --short

## staged changes at both ends of a file
# exits: 1
history 1
seq 20 >a
stock add a
stock commit -qm a
sed -i s/18/staged/ a
git stash -q
git stash pop -q
git add a
git stash -q
seq 21 >a
stock commit -qam longer
git stash pop --index
git status --short
git stash -q
git stash drop -q
stock reset -q --hard
sed -i s/4/staged/ a
git add a
git stash -q
sed -i 1i0 a
stock commit -qam before
git stash pop --index

## a file of the index where the work tree has a directory
# exits: 1 1
# state: no-objects no-fsck
history 1
printf "0 0000000000000000000000000000000000000000\tdir1\n100755 blob $(stock rev-parse HEAD:dir1/file1)\tdir1\n" |
    stock update-index --index-info
git stash create words
git stash push

## an empty index is not kept
# exits: 1
history 2
rm .git/index
echo mine >dir1/file1
git stash -k
cat dir1/file1
git stash pop -q
stock status --short
git stash -q
stock read-tree --empty
git stash -k
cat dir1/file1 dir2/file2
stock stash drop -q
stock read-tree --empty
git stash push -k -u
git stash pop

## each of two pathspecs for everything has matches
# exits: 1
history 3
echo x >dir1/file1
git stash push . .
stock stash pop -q
git stash push :/ .
stock stash pop -q
printf '.\n.\n' | git stash push --pathspec-from-file=-
stock stash pop -q
cd dir1
git stash push . :/
stock stash pop -q
git stash push :/ . nosuch

## changes beside a file that is only meant to be added
# exits: 1 1 1
# state: no-objects no-fsck
history 3
echo x >new
stock add -N new
git stash push -- dir2
git stash push -k -- dir2 dir1
git stash push -- new
echo changed >dir1/file1
git stash push -- dir2
git stash push -- dir1
git stash create

## nothing but a nested repository is untracked
history 3
stock init -q other
git stash -u
stock rev-parse stash^3^{tree}
git stash drop
(cd other; commit x)
git stash -a
git stash pop
git stash push -u -- dir1
stock worktree add -q tree
git stash -u -q
rm -rf tree
stock worktree prune

## a stash makes the work tree sparse again
history 5
stock sparse-checkout set dir1
mkdir dir2
echo y >dir2/file2
echo z >dir1/file1
stock add dir1/file1
echo u >dir0
for options in '' -k -u -S; do
    git stash push -q $options
    stock ls-files -v
    ls *
    stock reset -q --hard
    git stash pop -q
    stock ls-files -v
    stock add dir1/file1
done

## a skipped file that the sparse checkout includes comes back
history 5
stock sparse-checkout set dir1
stock config sparse.expectFilesOutsideOfPatterns true
stock update-index --skip-worktree dir1/file1
rm dir1/file1
echo z >dir1/file4
git stash
stock ls-files -v
cat dir1/file1
git stash pop -q

## a submodule that is replaced or gone is no reason for a stash
# in: files
repository
commit file
stock init -q sub
stock -C sub commit -q --allow-empty -m 1
stock add sub 2>/dev/null
stock commit -q -m sub
rm -rf sub
git stash
git stash -- sub
echo new >sub
git stash
git stash -- sub
git stash push -S -- sub
echo x >>file
git stash
git stash pop
cat sub

## what is in a submodule is in the status
# in: files
repository
commit file
stock init -q sub
stock -C sub commit -q --allow-empty -m 1
stock add sub 2>/dev/null
stock commit -q -m sub
echo untracked >sub/untracked
echo x >>file
git stash
git stash pop

## untracked files where a tracked file was are in no stash
# differs: refuses to remove what is in no stash; git removes it without a word
history 3
rm dir1/file1
mkdir dir1/file1
echo precious >dir1/file1/untracked
echo x >>dir2/file2
git stash
find dir1 -type f
git stash list

## an untracked file where a tracked directory was is in no stash
# differs: refuses to remove what is in no stash; git removes it without a word
history 3
rm -r dir1
echo precious >dir1
git stash -k
cat dir1
git stash list

## what is where a tracked file or directory was is in a stash with -u
history 3
rm -r dir1
echo precious >dir1
git stash -u -q
git status --short
git stash list

## a path outside of the sparse checkout
# differs: git stores the stash, stages what is inside, and stops
# exits: 1
history 6
stock sparse-checkout set dir1
echo x >>dir1/file1
git stash push -- dir1 dir0
git stash list

## a new file that is staged outside of the sparse checkout
history 6
stock sparse-checkout set dir1
mkdir -p dir0
echo new >dir0/new
stock add --sparse dir0/new
git stash push -q 2>/dev/null
git stash pop --index
stock ls-files -t

## a tree of attributes that is not there
# needs git: 2.55
# exits: 128
history 3
echo x >>dir1/file1
GIT_ATTR_SOURCE=nothing git stash
git status --short

## store takes unknown options for commits
# exits: 1 1 1 1 1
history 2
echo changed >>dir1/file1
stash=$(git stash create)
git stash store --bogus
git stash store --bogus "$stash"
git stash store "$stash" -x
git stash store --bogus -m words "$stash"
git stash store -q --bogus "$stash"
stock stash list

## changes within the context of another
repository
printf '1\n2\n3\n4\n' >a
stock add a
stock commit -q -m b
printf 'x\n1\n2\n4\n3\n' >a
git stash -q
git stash show -p

## -k of paths leaves other files alone
history 3
echo x >>dir1/file1
echo y >>dir2/file2
git add dir2
echo z >>dir2/file2
git stash push -q -k -- dir1
cat dir2/file2
git stash show -p

## untracked files that were tracked
# exits: 128 128
repository
commit a
commit b
stock rm -q --cached a
echo 3 >a
git stash -u
git stash show
git stash show -u
git stash show -p -u
git stash show --only-untracked

## names beside a patch
# exits: 128 128 1
history 2
echo x >>dir1/file1
git stash -q
git stash show -p --name-only
git stash show --name-status -p --stat
git stash show --name-only --name-status
git stash show -u --name-status --name-only 0
git stash show --name-status --name-only nope

## a lock that nothing needs
# exits: 1 1 1
# masks: words
history 2
: >.git/index.lock
git stash create
git stash push -- nope
echo x >>dir1/file1
git stash create
git stash push -- nope

## a sparse index stays sparse
# state: no-objects no-fsck no-logs no-pseudorefs
# needs git: 2.55
sparse_tree
stashed() {
    echo "$*"
    git stash "$@"
    sparse_state
}
echo 2 >in/a
echo n >in/n
stock add in/n
stashed
stashed pop
stashed push --staged
stashed apply --index
stock reset -q --hard
mkdir -p out
echo b2 >out/b
stock add --sparse out/b
stashed
stashed pop
stock reset -q --hard
stock sparse-checkout reapply
stock update-index --add --cacheinfo 100644,$(stock rev-parse HEAD:top),out/q
stashed push
stashed pop --index
stock reset -q --hard
stock sparse-checkout reapply
echo 3 >in/a
stashed -- in
echo 4 >in/a
stock commit -q -a -m two
stashed branch other
stock fsck --no-dangling

## a file system monitor is asked
# state: no-logs no-pseudorefs no-objects no-fsck
monitored_tree d/x
known() {
    "$@"
    stock ls-files -f
    stock stash list
    cat a b c
}
stock status --short
echo silent >c
known git stash
echo 2 >b
echo b >.git/changed
known git stash
known git stash pop
: >.git/changed
echo untracked >u
known git stash -u
known git stash pop
known git stash create
stock config core.fsmonitor false
known git stash

## an entry whose log is damaged
history 2
echo 1 >file
git add file
git stash push -q
echo nonsense >.git/logs/refs/stash
git stash drop
git stash list

## apply during a merge that has no conflicts
history 2
commit file
echo 2 >file
git stash push -q
stock checkout -q -b side HEAD~1
commit side
stock checkout -q main
stock rev-parse side >.git/MERGE_HEAD
git stash apply

## a stash without one of its trees is none
# exits: 128 128 128 128 128 128 128 128
history 2
for revision in 'stash^{tree}' 'stash^2^{tree}'; do
    echo "$revision" >dir1/file1
    stock add dir1/file1
    echo more >dir2/file2
    stock stash -q
    rm -f ".git/objects/$(stock rev-parse "$revision" | sed 's|..|&/|')"
    git stash apply
    git stash show
    git stash drop
    git stash store "$(stock rev-parse stash)"
done
## a merge program where paths have quotes and percent signs
# in: files
# state: no-log-of-HEAD no-pseudorefs no-objects no-fsck
# exits: 1 1
repository "it's 100%P \"of\" \$HOME"
cd it*
mkdir -p "s/it's %A"
seq 5 >"s/it's %A/a"
echo '* merge=mine' >.gitattributes
stock add .
stock commit -q -m base
stock config merge.mine.driver 'echo "$(ls %O %A %B | wc -l)" %P >&2; cat %O %B >>%A; exit 1'
sed 's/3/stashed/' "s/it's %A/a" >new
cat new >"s/it's %A/a"
rm new
git stash push -q
sed 's/3/changed/' "s/it's %A/a" >new
cat new >"s/it's %A/a"
rm new
stock commit -q -a -m change
git stash apply
stock reset -q --hard
cd "s/it's %A"
git stash apply
## what a trace says of merging
# exits: 1
# state: no-objects no-fsck no-log-of-HEAD no-pseudorefs
history 3
told() {
    echo "$*"
    GIT_TRACE2_EVENT_NESTING=9 GIT_TRACE2_EVENT="$PWD/../trace" git stash "$@"
    grep -o '"region_enter".*"category":"merge","label":"\(incore_nonrecursive\|checkout\|display messages\)"' ../trace |
        sed 's/.*"nesting"/nesting/'
    grep -o '"category":"status".*' ../trace | grep -v ignored | sort -u
    grep -o '"category":"unpack_trees","label":"unpack_trees"' ../trace | sort -u
    rm ../trace
}
echo new >dir1/file1
echo untracked >other
told push
told pop
told push -u
told apply --index
stock reset -q --hard
rm other
echo conflict >dir1/file1
stock commit -q -a -m conflict
told apply

## made of files whose times have changed, and nothing else
# exits: 1 1 1
history 2
git stash create
touch -d 2020-01-01 dir1/*
git stash create
git stash create
touch -d 2020-01-02 dir1/*
git stash
touch -d 2020-01-03 dir1/*
chmod +x dir1/file1
git -c core.fileMode=false stash create
git -c core.fileMode=false stash create
touch -d 2020-01-04 dir1/*
stock update-index --index-version 4
git -c core.fileMode=false stash create

## staged content that is missing
# exits: 1 1 1 1 1 1 1 128
history 3
echo more >>dir0/file0
stock stash -q
echo staged >two
stock add two
id=$(stock rev-parse :two)
rm ".git/objects/${id%"${id#??}"}/${id#??}"
git stash create
git stash push
git stash push -S -q
git stash push -k -- two
git stash apply
git stash apply --index
git stash pop -q --index
git write-tree
git write-tree --missing-ok

## files added to a directory that was renamed
# state: no-log-of-HEAD no-pseudorefs no-objects no-fsck
# exits: 1 1
repository .
mkdir a
for file in 1 2 3; do
    printf 'line %s\n' $file one two three four five >a/file$file
done
stock add .
stock commit -q -m base
echo new >a/new
stock add a/new
stock stash -q
stock mv a b
stock commit -q -m renamed
echo moves >b/new
stock add b/new
stock stash -q
stock reset -q --hard HEAD~
stock mv a c
stock commit -q -m elsewhere
for entry in 0 1; do
    for choice in conflict false true; do
        git -c merge.directoryRenames=$choice stash apply stash@{$entry}
        git status --short
        stock reset -q --hard
        stock clean -q -f -d
    done
done

## content that a partial clone lacks
# state: no-log-of-HEAD no-pseudorefs no-objects no-fsck
history 12 from
(
    cd from
    stock config uploadpack.allowFilter true
    stock config uploadpack.allowAnySHA1InWant true
    stock checkout -q -b side
    for file in */*; do
        echo theirs >>"$file"
    done
    stock commit -q -a -m theirs
    stock checkout -q main
    for file in */*; do
        { echo ours && cat "$file"; } >../new
        mv ../new "$file"
    done
    stock mv dir2 dir3
    stock commit -q -a -m ours
)
stock clone -q --no-local --filter=blob:none "file://$PWD/from" to
cd to
index=$(stock commit-tree -p HEAD~ -m index HEAD~^{tree})
stock stash store "$(stock commit-tree -p HEAD~ -p "$index" -m stash origin/side^{tree})"
GIT_TRACE2_EVENT=$PWD/../trace git stash apply
# Git fetches first what may be renamed, and then the rest.
[ "$(grep '"event":"start"' ../trace | grep -c negotiationAlgorithm)" -le 2 ] && echo 'few requests'
rm ../trace
stock reset -q --hard
stock rm -q --cached dir0/file0
git write-tree
stock reset -q --hard HEAD~2 --
stock reset -q --soft ORIG_HEAD
stock rm -q -r --cached dir1
git write-tree

## export of nothing
# needs git: 2.55
# state: no-log-of-HEAD no-pseudorefs
history 2
git stash export --print
git stash export --to-ref refs/exported

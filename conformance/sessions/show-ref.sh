# Refs and what they point at.
# in: files reftable

## all refs
history 2
stock tag light
stock tag -a -m note heavy
git show-ref
git show-ref --head
git show-ref -d

## kinds of refs
# exits: 1
history 2
stock tag light
stock branch other
git show-ref --heads
git show-ref --branches
git show-ref --tags
git show-ref --tags --branches
git show-ref nothing

## patterns match whole parts of names
# exits: 1
history 1
stock branch topic/one
stock branch one
git show-ref one
git show-ref topic/one
git show-ref heads/one
git show-ref ne

## --verify wants full names
# exits: 128 1 128
history 1
git show-ref --verify refs/heads/main
git show-ref --verify HEAD
git show-ref --verify main
git show-ref --verify -q refs/heads/none
git show-ref --verify refs/heads/none
git show-ref --verify --hash refs/heads/main

## ids alone, and shorter
history 2
stock tag -a -m note v1
git show-ref --hash
git show-ref -s main
git show-ref --hash=10
git show-ref --abbrev
git show-ref --abbrev=12 -d
git show-ref -s -d --tags

## --exists
# exits: 2 2 128
history 1
git show-ref --exists refs/heads/main
git show-ref --exists HEAD
git show-ref --exists refs/heads/none
git symbolic-ref refs/heads/dangling refs/heads/none
git show-ref --exists refs/heads/dangling
git show-ref --exists main
git show-ref --exists

## options that do not go together
# masks: usage
# exits: 128 128 128 128
history 1
git show-ref --exists --verify refs/heads/main
git show-ref --exclude-existing --verify </dev/null
git show-ref --exists refs/heads/main refs/heads/other
git show-ref --verify

## lines are filtered by which refs are there
history 1
printf 'refs/heads/main\nrefs/heads/new\n123 refs/tags/v1^{}\nrefs/heads/a..b\n' | git show-ref --exclude-existing
printf 'refs/heads/new\nrefs/tags/new\n' | git show-ref --exclude-existing=refs/tags

## nothing to show
# exits: 1 1
repository
git show-ref
git show-ref --head

## a ref to an object that is missing
# exits: 128 128
# in: files
# state: no-fsck
history 2
echo 1111111111111111111111111111111111111111 >.git/refs/heads/broken
git show-ref
git show-ref broken

## an unknown option
# masks: usage
# exits: 129 129
history 1
git show-ref --bogus
git show-ref -x

## the length behind the letter
history 2
git show-ref -s7
git show-ref -s40 main

## names of one level are no refs
history 1
printf 'HEAD\nFOO\nx ORIG_HEAD\nrefs/heads/none\n' | git show-ref --exclude-existing

## a bad ref ends the list
# in: files
# masks: words
# needs git: 2.55
# exits: 128 128 128
# state: no-fsck
history 2
stock tag one
stock tag two
cp .git/refs/heads/main .git/refs/tags/bad..name
git show-ref
git show-ref --branches
git show-ref --tags
rm .git/refs/tags/bad..name
echo junk >.git/refs/tags/sad
git show-ref
rm .git/refs/tags/sad

## negative and long lengths
# in: files sha1 sha256
# exits: 129
history 2
stock tag -a -m note heavy
git show-ref --hash=-1
git show-ref --hash=-1 -d
git show-ref -s-1
git show-ref --hash
git show-ref --hash=0
git show-ref --hash=1
git show-ref --hash=100
git show-ref --hash=4294967297
git show-ref --hash=2147483648
git show-ref --abbrev=-1
git show-ref --abbrev=-99999999999
git show-ref --abbrev
git -c core.abbrev=10 show-ref --abbrev
git show-ref --abbrev=9 --hash
git show-ref --verify --hash=-7 refs/heads/main
git show-ref --hash=junk

## settings of the usual length
# exits: 128 128
history 2
git -c core.abbrev=0 show-ref
git -c core.abbrev=-1 show-ref --abbrev
git -c core.abbrev= show-ref --abbrev
git -c core.abbrev=NO show-ref --abbrev
git -c core.abbrev=Auto show-ref --abbrev
git -c core.abbrev=12 show-ref --abbrev

## refs to damaged objects
# masks: order repeats
history 2
stock tag -m words annotated HEAD~1
stock tag -m words damaged
for object in HEAD damaged; do
    file=.git/objects/$(stock rev-parse $object | sed 's|..|&/|')
    rm -f "$file"
    echo junk >"$file"
done
git show-ref
git show-ref --head -d
git show-ref --verify -d refs/heads/main refs/tags/damaged
git show-ref --verify HEAD

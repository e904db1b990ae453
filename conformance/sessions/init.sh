# Repositories are made.

## in this directory
# in: files reftable sha1 sha256
git init
git rev-parse --show-object-format --show-ref-format

## in another, quietly and bare
git init -q a/b
git init --bare c.git
git init --quiet --bare --initial-branch=trunk d.git

## again
git init
git init
git init -q --initial-branch=other
git symbolic-ref HEAD

## with formats by option
git init -q --object-format=sha256 a
git init -q --ref-format=reftable b
git -C a rev-parse --show-object-format
git -C b rev-parse --show-ref-format

## with formats that do not go
# exits: 128 128 128 128
git init --object-format=md5 a
git init --ref-format=nothing b
git init -q c
git init --object-format=sha256 c
git init --ref-format=reftable c

## the branch comes from configuration
git -c init.defaultBranch=trunk init a
git -c init.defaultBranch=trunk init -b other b
cat a/.git/HEAD b/.git/HEAD

## a branch that is no name
# exits: 128
git init -b 'a..b'

## shared
git init -q --shared a
git init -q --shared=all b
git init -q --shared=0640 c
stat -c '%a %n' a/.git/HEAD b/.git/HEAD c/.git/config

## shared in a way that there is not
# exits: 128 128
git init --shared=nonsense
git init --shared=0100

## a git directory elsewhere
# state: no-files
git init -q --separate-git-dir=real.git work
cat work/.git | sed 's|/HERE||'
git -C work rev-parse --git-dir

## from a template
mkdir -p template/hooks template/info
echo text >template/description
echo '#!/bin/sh' >template/hooks/post-update
echo ignored >template/info/exclude
git init -q --template=template a
git init -q --template= b
GIT_TEMPLATE_DIR=template git init -q c
git -c init.templateDir=template init -q d

## by GIT_DIR
GIT_DIR=x.git git init -q
GIT_DIR=y.git GIT_WORK_TREE=. git init -q
git --git-dir=z.git init
mkdir b.git
cd b.git
git --bare init

## a directory in which a file is in the way
# exits: 128 128
echo text >file
git init file
git init file/below

## a bare one with a work tree
# exits: 128 128
git --work-tree=. init
git init --bare --separate-git-dir=x

## unknown options
# masks: usage
# exits: 129 129
git init --bogus
git init a b

## as in git-init's synopsis, shortened
git init --bar a.git
git init --init=trunk b

## in a folder that a file system's umask protects
umask 077
git init -q
stat -c '%a' .git .git/HEAD .git/objects

## reinitialised with another branch
# says: ignored
git init -q
git init --initial-branch=other

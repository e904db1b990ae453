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

## a name of a branch that nobody chose
# needs git: 2.55
GIT_CONFIG_GLOBAL=/dev/null git init b
GIT_CONFIG_GLOBAL=/dev/null git -c advice.defaultBranchName=true init c
GIT_CONFIG_GLOBAL=/dev/null git -c advice.defaultBranchName=false init d
GIT_CONFIG_GLOBAL=/dev/null git -c color.advice=always init e
GIT_CONFIG_GLOBAL=/dev/null git init -q f

## --bare beside GIT_DIR and GIT_WORK_TREE
# state: no-files no-work
# exits: 128 128 128
mkdir work
GIT_WORK_TREE=work git --bare init a
GIT_WORK_TREE=work GIT_DIR=x git --bare init b
GIT_WORK_TREE=work git init --bare c
GIT_DIR=x git --bare init d
GIT_DIR=x git init --bare e
GIT_DIR=x git --bare init
git --git-dir=y --bare init f

## formats that are configured or in variables, and not known
# state: no-config
# needs git: 2.55
# exits: 128 128
git -c init.defaultObjectFormat=none -c init.defaultRefFormat=none init a
GIT_DEFAULT_HASH=sha1 GIT_DEFAULT_REF_FORMAT=files \
    git -c init.defaultObjectFormat=none -c init.defaultRefFormat=none init b
GIT_DEFAULT_HASH=none GIT_DEFAULT_REF_FORMAT=none git init --object-format=sha256 --ref-format=reftable c
GIT_DEFAULT_HASH=none git init d
GIT_DEFAULT_REF_FORMAT=none git init d

## feature.experimental
# state: no-config
# needs git: 2.55
git -c feature.experimental=true init a
git -c feature.experimental=true -c init.defaultRefFormat=files init b
git -C a rev-parse --show-ref-format
git -C b rev-parse --show-ref-format

## a repository that is moved from its linked work tree
# state: no-files
history 1 main
stock -C main worktree add -q ../linked
stock -C main worktree add -q ../other
git -C linked init --separate-git-dir ../real.git
for tree in main linked other; do
    sed "s|$PWD|HERE|" "$tree/.git"
    stock -C "$tree" rev-parse HEAD
done
git -C main init --separate-git-dir ../again.git
stock -C linked status --short

## a repository that is moved away from relative links
# needs git: 2.48
# state: no-files
history 1 main
stock -C main config worktree.useRelativePaths true
stock -C main worktree add -q ../linked
git -C main init --separate-git-dir ../real.git
cat linked/.git real.git/worktrees/linked/gitdir
stock -C linked status --short

## a repository whose directory is a link
# state: no-files no-work no-config
repository work
mv work/.git work/here
ln -s here work/.git
git -C work init --separate-git-dir ../real.git
readlink work/.git
sed "s|$PWD|HERE|" work/here

## a bare one is not moved
# exits: 128
# state: no-files
history 1 main
stock clone -q --bare main bare.git
stock -C bare.git worktree add -q --detach ../linked
git -C linked init --separate-git-dir ../real.git

## again, in a linked work tree
# state: no-files
mkdir -p template/info
echo '*.o' >template/info/exclude
history 1 main
stock -C main worktree add -q ../linked
rm main/.git/info/exclude
git -C linked init --template=../template
cat main/.git/info/exclude
find main/.git/worktrees | sort

## again, with a file for its branch that cannot be read
# exits: 128
repository
echo '[' >broken
git -c "includeIf.onbranch:main.path=$PWD/broken" init
## --bare before the command
# exits: 128
# state: no-files
export GIT_TEMPLATE_DIR=
GIT_DIR=other git --bare init one
GIT_DIR=two git --bare init
git --bare init three
GIT_WORK_TREE=. git --bare init four
ls

## formats of variables and settings
# needs git: 2.55
GIT_DEFAULT_REF_FORMAT=nothing git init --ref-format=files one
GIT_DEFAULT_REF_FORMAT=files git -c init.defaultRefFormat=nothing init two
git -c feature.experimental=true init three
git -C three rev-parse --show-ref-format
git -c advice.defaultBranchName=false init four

## a git directory moves away from work trees with relative paths
# needs git: 2.48
# state: no-files
history 1
git worktree add -q --relative-paths ../wt
git init --separate-git-dir ../away
cat ../wt/.git ../away/worktrees/wt/gitdir
git -C ../wt for-each-ref

## a setting for the paths of submodules
# needs git: 2.55
# exits: 128 1
# state: no-files no-config no-work
git -c init.defaultSubmodulePathConfig=true init one
git -c init.defaultSubmodulePathConfig=1 init --bare --ref-format=reftable --object-format=sha256 two
git -c init.defaultSubmodulePathConfig=false init three
git -c init.defaultSubmodulePathConfig=x init four 2>/dev/null
rm -rf four
git init five
git -C five -c init.defaultSubmodulePathConfig=true init
git -C one -c init.defaultSubmodulePathConfig=false init
mkdir template
printf '[init]\n\tdefaultSubmodulePathConfig\n' >template/config
git init --template=template six
for dir in one two three five six; do
    for name in core.repositoryFormatVersion extensions.submodulePathConfig; do
        git -C $dir config $name || echo none
    done
    git -C $dir for-each-ref
done

## .git is a link
# exits: 128 128
# state: no-work
mkdir new absent there loop
ln -s ../repository new/.git
git init --template= new
cat repository/config
git init --template= new
ln -s ../there absent/.git
git init --template= absent
cat there/config
ln -s "$PWD/none/below" there/.git
git init --template= there
rm there/.git
ln -s nothing dangling
git init --template= dangling

## settings that every command checks
# exits: 128 128 128 128 128 128 128 128 128 128
# needs git: 2.55
for setting in core.abbrev=x core.fileMode=x user.name core.createObject=x core.checkStat=x push.default=x \
    branch.autoSetupRebase=x pack.packSizeLimit=-1; do
    git -c $setting init -q new
    rm -rf new
done
git init -q other
printf '[core]\n\tdisambiguate = x\n' >>other/.git/config
git init other
git -C other show-ref
rm -r other

## no name of a branch
# exits: 128 128
# needs git: 2.55
git -c init.defaultBranch init -q new
rm -r new
printf '[init]\n\tdefaultBranch\n' >config
GIT_CONFIG_GLOBAL=$PWD/config git init -q new
rm -r new
GIT_CONFIG_GLOBAL=$PWD/config git init -q -b main new
rm -r new config

## a hook of a template or of the configuration sees that HEAD is made
# needs git: 2.55
# in: files reftable
# exits: 128 128
# state: no-fsck no-config no-files
mkdir -p template/hooks
printf '#!/bin/sh\necho "$1: ${PWD##*/}" "${GIT_DIR##*/}"\ncat\n[ "$1" != "$REFUSED" ]\n' >template/hooks/reference-transaction
chmod +x template/hooks/reference-transaction
git init -q -b one --template=template one
git init -q -b two one
git init -q -b one --bare --template=template two
git -c core.hooksPath="$PWD/template/hooks" init -q --template= three
git -c hook.a.event=reference-transaction -c hook.a.command='echo configured' init -q -b four --template= four
REFUSED=prepared git init -q --template=template five
REFUSED=preparing git init -q --template=template six
git init -q --template=template --separate-git-dir=elsewhere seven
rm -rf five six template

## a template with a HEAD leaves the hash open
# exits: 128
# state: no-config
mkdir template
echo 'ref: refs/heads/other' >template/HEAD
git init --template="$PWD/template" --object-format=sha256 one
git -C one config extensions.objectFormat
cat one/.git/HEAD
GIT_DEFAULT_HASH=sha256 git init -q --template="$PWD/template" --bare two
git -C two config extensions.objectFormat
git init --object-format=sha1 one
rm -r two

## directories of objects that cannot be made
# exits: 1 1 1
# state: no-files no-fsck
mkdir template
echo text >template/objects
git init -q --template="$PWD/template" one
git init -q --template="$PWD/template" --bare two
GIT_OBJECT_DIRECTORY="$PWD/template/objects/x" git init -q --template= three
rm -rf one two three

## core.logAllRefUpdates without a value
# exits: 128 128 128
repository one
printf '[core]\n\tlogAllRefUpdates\n' >>one/.git/config
printf '[core]\n\tlogAllRefUpdates\n' >global
git init -q one
git -c core.logAllRefUpdates init two
ls -A two
GIT_CONFIG_GLOBAL=$PWD/global git init three
rm -rf one two three

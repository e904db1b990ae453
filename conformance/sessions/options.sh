# Options as git reads them: how they are shortened, taken back and asked for. What follows the synopsis of a usage is packrace's own.
# masks: usage

## the beginning of a long option is enough
repository
echo 1 >a
git add --verb --dry a
git add --forc a
tree=$(git write-tree --missing)
commit=$(git commit-tree -m one "$tree")
git update-ref --create --no-der refs/heads/b "$commit"
git for-each-ref --form='%(refname)' --exc=refs/tags
git show-ref --deref --verif refs/heads/b
git symbolic-ref --sho HEAD
git pack-refs --al --no-pr
git hash-object --no-fil --stdin </dev/null
git repack -a --write-b -q -d

## one that begins several options
# exits: 129 129 129 129 129
repository
git repack --write
git for-each-ref --s
git pack-refs --no-a
git show-ref --hea
git hash-object --std </dev/null

## the last word counts
# exits: 1
repository
echo 1 >a
git add --dry-run --no-dry-run --chmod=+x --no-chmod a
git ls-files -s
git stash push --message=x --no-message -q 2>/dev/null
git for-each-ref --count=1 --no-count
git init -q --bare --no-bare --object-format=sha256 --no-object-format other

## names of files stay
# needs git: 2.55
# exits: 128 128 128
history 1
stock repack -dq
echo dir0/a >list
echo 1 >dir1/a
git add --pathspec-from-file=list --no-pathspec-from-file dir1/a
git add --no-pathspec-from-file dir1/a
git stash push --pathspec-from-file=list --no-pathspec-from-file dir1/a
git multi-pack-index write --bitmap --refs-snapshot=nothing --no-refs-snapshot
git status --short

## numbers that are taken back are 0
history 12
for options in '--window=9 --no-window' --no-depth '--no-window --window=9' '--no-threads --no-all-progress --no-all-progress-implied --no-keep-true-parents --no-uri-protocol'; do
    echo HEAD | git pack-objects --revs --stdout -q $options >pack
    stock index-pack -o idx pack >/dev/null
    stock verify-pack -s idx
done
echo HEAD | git pack-objects --revs --stdout -q --no-window --compression=9 --no-compression | wc -c
rm -f pack idx

## options of repack that are taken back
# masks: pack-names
# state: packs
history 12
stock repack -dq
commit one
pack=$(basename .git/objects/pack/*.pack)
git repack -dq --geometric=2 --no-geometric
git repack -adfq --depth=0 --no-depth --window=0 --no-window --no-threads --window-memory=1k --no-window-memory
stock verify-pack -s .git/objects/pack/*.idx | grep -q chain && echo deltas
git repack -adq --filter=blob:none --no-filter --filter-to=x --no-filter-to
git repack -adq --keep-pack="$pack" --no-keep-pack --expire-to=x --no-expire-to
git repack -dq --cruft --cruft-expiration=now --no-cruft-expiration
git count-objects -v | grep -v size

## options of multi-pack-index that are taken back
history 3
stock repack -dq
git multi-pack-index --object-dir=nothing --no-object-dir write
git multi-pack-index --object-dir=nothing write --no-object-dir
git multi-pack-index write --object-dir=nothing --no-object-dir --preferred-pack=nothing --no-preferred-pack
git multi-pack-index verify --object-dir=nothing --no-object-dir

## options of commit-graph that are taken back
history 5
git commit-graph --object-dir=nothing --no-object-dir write --reachable --split
for options in '--size-multiple=9 --no-size-multiple' '--max-commits=1 --no-max-commits' '--expire-time=never --no-expire-time'; do
    commit "$options"
    git commit-graph --object-dir=nothing write --no-object-dir --reachable --split $options
    wc -l <.git/objects/info/commit-graphs/commit-graph-chain
done
git commit-graph verify --object-dir=nothing --no-object-dir

## options of reflog that are taken back
# exits: 129 129 255
# masks: usage
history 1
for n in 1 2 3; do commit "file$n"; done
git reflog expire --expire=now --all --no-all
git reflog expire --expire=now --dry-run --no-dry-run --verbose --no-verbose --no-stale-fix --no-single-worktree main
git reflog main
git reflog delete -n --no-dry-run --rewrite --no-rewrite --updateref --no-updateref --verbose --no-verbose HEAD@{0}
git reflog
git reflog expire --no-expire --all
git reflog expire --no-expire-unreachable --all
git reflog delete --no-verb none@{0}

## options of update-index that are taken back
# needs git: 2.41
history 1
git update-index --index-version=4 --no-index-version
git update-index --show-index-version
git update-index --untracked-cache
git update-index --no-test-untracked-cache
git update-index --force-untracked-cache
git update-index --no-force-untracked-cache

## -h shows how a command is used
# exits: 129 129 129 129 129 129 129 129 129 129 129 129 129 129 129 129 129 129 129 129 129 129
repository
for command in add commit-graph commit-tree for-each-ref hash-object index-pack init multi-pack-index pack-objects pack-refs receive-pack reflog refs repack show-ref stash \
    symbolic-ref unpack-objects update-index update-ref upload-pack write-tree; do
    git "$command" -h >out 2>&1
    head -n 1 out | cut -c1-6
done
rm out

## -h of subcommands
# exits: 129 129 129 129 129 129 129 129
repository
for command in 'reflog expire' 'reflog delete' 'stash push' 'stash pop' 'stash drop' 'commit-graph write' 'multi-pack-index write' 'refs migrate'; do
    git $command -h >out 2>&1
    head -n 1 out | cut -c1-6
done
rm out

## -h outside of a repository
# exits: 129 129 129 129
for command in add update-ref for-each-ref repack; do
    git "$command" -h >out 2>&1
    head -n 1 out | cut -c1-6
done
rm out

## -h with an index that is damaged
# exits: 129 129
# state: no-index no-fsck
repository
echo damaged >.git/index
git add -h >/dev/null 2>&1
git update-index -h >/dev/null 2>&1

## options before the command
# exits: 128
history 2 one
mkdir two
echo 1 >two/a
git -C one -C dir1 rev-parse --show-prefix
git --git-dir=one/.git --work-tree=two add a
git --git-dir=one/.git ls-files a
git --git-dir one/.git for-each-ref --format='%(refname)'
git --no-pager -C one for-each-ref --format='%(refname)'
git -c core.logAllRefUpdates=always -C one update-ref refs/odd/a HEAD
git --namespace=x -C one show-ref
git -C nothing show-ref

## settings from variables
# exits: 128 128 128 128
history 1
FOUR=4 EIGHT=8
export FOUR EIGHT
git --config-env=core.abbrev=FOUR show-ref --abbrev
git --config-env core.abbrev=FOUR -c core.abbrev=8 show-ref --abbrev
git -c core.abbrev=4 --config-env=core.abbrev=EIGHT show-ref --abbrev
git --config-env=core.abbrev=NONE show-ref
git --config-env=core.abbrev= show-ref
git --config-env=core.abbrev show-ref
NONSENSE=x git --config-env=core.abbrev=NONSENSE show-ref --abbrev

## names of settings with an equals sign, from variables
# exits: 128
history 1
git update-ref refs/heads/a=b HEAD
HERE=. MAIN=refs/heads/main
export HERE MAIN
git --config-env=branch.a=b.remote=HERE --config-env branch.a=b.merge=MAIN for-each-ref --format='%(refname) %(upstream)'
printf '#!/bin/sh\n[ "$1" = preparing ] || echo "$GIT_CONFIG_PARAMETERS" >&2\n' >.git/hooks/reference-transaction
chmod +x .git/hooks/reference-transaction
git -c a.b=c=d --config-env=e.f=g.h=HERE update-ref refs/heads/x HEAD
git --config-env=a=b.c=HERE show-ref

## names of settings that are none
# needs git: 2.55
# exits: any
history 1
for name in a a=x .a=x a.=x a.b.=x a_.b=x a.b_=x a.1=x a.b.1c=x 'a.b
c=x' 'a.b
c.d=x' a..b=x a.b.c-d=x; do
    git -c "$name" for-each-ref
    GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=${name%=*} GIT_CONFIG_VALUE_0=x git for-each-ref
    GIT_CONFIG_PARAMETERS="'${name%=*}'='x'" git for-each-ref
done
for count in x 1 99999999999; do
    GIT_CONFIG_COUNT=$count git for-each-ref
done
GIT_CONFIG_PARAMETERS="'a.b" git for-each-ref

## no hints
# needs git: 2.55
# exits: 1
# state: no-log-of-HEAD
history 1
touch .git/hooks/reference-transaction new
git --no-advice add
git --no-advice update-ref refs/heads/a HEAD
git add new
git --no-advice stash
git --no-advice stash branch a..b
GIT_ADVICE=0 git add
GIT_ADVICE=1 git add

## options before the command, and what hooks see of them
history 1
cat >.git/hooks/reference-transaction <<'EOF'
#!/bin/sh
echo "$GIT_EXEC_PATH,$GIT_NO_REPLACE_OBJECTS,$GIT_ADVICE,$GIT_NO_LAZY_FETCH,$GIT_LITERAL_PATHSPECS" >>seen
EOF
chmod +x .git/hooks/reference-transaction
git --exec-path=x --no-replace-objects --no-advice --no-lazy-fetch --literal-pathspecs update-ref refs/heads/a HEAD
sort -u seen
rm seen
git -p --paginate --no-pager show-ref
git --exec-path=x --exec-path
git --exec-path=x --exec-path --bogus
stock replace --graft HEAD
git --no-replace-objects for-each-ref --format='%(objectname) %(subject)' refs/heads

## the work tree beside a stash
# state: no-log-of-HEAD
history 1 one
mkdir two
echo 1 >two/a
git --git-dir one/.git --work-tree two stash -u

## options before the command are not shortened
# exits: 129 129
history 1
git --git-di=.git show-ref 2>/dev/null
git --no-pag show-ref 2>/dev/null

## outside of a repository
# exits: 128 128 128 128 128 128 128
git for-each-ref
git update-ref refs/heads/a HEAD
git add .
git repack
git write-tree
git stash list
git pack-refs --all

## outside of a repository, whatever else is wrong
# needs git: 2.55
# exits: 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128
for command in add commit-graph commit-tree for-each-ref multi-pack-index pack-objects pack-refs refs repack show-ref stash symbolic-ref unpack-objects update-index update-ref write-tree \
    'commit-graph write' 'multi-pack-index verify' 'stash push' 'refs exists' 'refs migrate' 'reflog list' 'reflog expire'; do
    for options in --bogus -% '-h x' ''; do
        git $command $options </dev/null
    done
done
for options in 'commit-graph write -h' 'stash pop --help-all' 'refs verify -h' '-C nowhere add --bogus' '--git-dir=nowhere add --bogus'; do
    git $options
done

## without a work tree, whatever else is wrong
# exits: 128 128 128 128
git init -q --bare a.git
git -C a.git add --bogus
git -C a.git stash --bogus
git -C a.git stash pop -h x
git --git-dir=a.git add --bogus

## in a bare one, where a work tree is needed
# exits: 128 128
git init -q --bare a.git
cd a.git
git add x
git stash

## numbers with a unit, and what is none
# needs git: 2.50
# masks: usage
# exits: 129 129 129 129 129 129 129 129
history 3
git for-each-ref --count=1k
git for-each-ref --count=x
git for-each-ref --count=3000000000
echo HEAD | git pack-objects --revs --stdout --window=x
echo HEAD | git pack-objects --revs --stdout --max-pack-size=-1
git commit-graph write --split --size-multiple=1t
git update-index --index-version=x
git repack --geometric=x
git upload-pack --timeout=x .

## hooks without an interpreter are for the shell
# needs git: 2.54
# in: files reftable
# exits: 128
history 2
printf 'echo "$0 $1"; cat\n' >.git/hooks/reference-transaction
: >.git/hooks/post-index-change
chmod +x .git/hooks/*
git update-ref refs/heads/new HEAD
echo more >dir1/file1
git add dir1/file1
printf 'exit 1\n' >.git/hooks/reference-transaction
git update-ref refs/heads/other HEAD
printf 'echo "cleaned $#"; cat\n' >clean
chmod +x clean
stock config filter.f.clean ./clean
mkdir -p .git/info
echo 'dir1/* filter=f' >.git/info/attributes
echo even more >>dir1/file1
git add dir1/file1
git cat-file -p :dir1/file1

## hooks that nobody may run are mentioned, unless that is off
# needs git: 2.48
history 2
touch .git/hooks/reference-transaction
git update-ref refs/heads/new HEAD
git --no-advice update-ref refs/heads/new HEAD~1
git -c advice.ignoredHook=false update-ref refs/heads/new HEAD
git init -q --bare to.git
mkdir -p to.git/hooks
touch to.git/hooks/pre-receive to.git/hooks/update to.git/hooks/post-receive
git push -q to.git main
stock -C to.git config advice.ignoredHook false
git push -q to.git main:refs/heads/other

## pathspec options that contradict each other
# state: no-log-of-HEAD
# exits: 128 128 128 128 128
history 2
git --glob-pathspecs --noglob-pathspecs add dir1
git --literal-pathspecs --icase-pathspecs add dir1
git --literal-pathspecs --glob-pathspecs --noglob-pathspecs add dir1
GIT_LITERAL_PATHSPECS=1 git --glob-pathspecs add dir1
echo more >dir1/file1
git --glob-pathspecs --noglob-pathspecs stash push dir1
git --glob-pathspecs --noglob-pathspecs add -A
git --literal-pathspecs --icase-pathspecs update-index dir1/file1
git --literal-pathspecs --icase-pathspecs stash push
GIT_LITERAL_PATHSPECS=0 GIT_ICASE_PATHSPECS=1 git add dir1

## switches without their values
# exits: 129 129 129 129 129 129 129 129
history 1
git stash -m
git stash push -qm
git stash push --message
git stash store -m
git init -b
git init --initial-branch
git commit-tree -p
git update-ref -m

## --no- is short for nothing
# state: no-log-of-HEAD no-pseudorefs
# needs git: 2.55
# exits: 129 129 129 129 129
history 2
echo more >dir1/file1
git stash -q
git stash drop --no- >/dev/null
git stash export --no- >/dev/null
git commit-tree --no- "$(stock write-tree)" >/dev/null
git write-tree --no- >/dev/null
git reflog delete --no- HEAD@{0} >/dev/null
git stash store -m --no- "$(stock rev-parse stash@{0})"
stock stash list

## of what is untracked, the last option counts
# state: no-log-of-HEAD
history 2
echo ignored >.git/info/exclude
for options in '-u --no-all' '-a --no-include-untracked' '-a --no-all' '--no-all -u' '-u -a' '-a -u'; do
    echo "$options" >dir1/file1
    touch new ignored
    git stash push -q $options
    stock status --short --ignored
done

## labels are for stash apply
# state: no-log-of-HEAD no-pseudorefs
# needs git: 2.55
# exits: 129 129 129
history 2
echo more >dir1/file1
git stash -q
git stash pop --label-ours=X
git stash pop --label-b X
git stash pop --no-label-theirs
git stash apply -q --label-o=X

## HEAD is what the beginning of an option means, too
history 3
stock branch old HEAD~1
for option in --contain --merge --no-contain --no-merge --con --no-m; do
    git for-each-ref --format="$option %(refname)" "$option"
done

## values of options that have none, and of unknown ones
# needs git: 2.55
# exits: 129 129 129 129 129 129 129 129 129
history 1
git add --dry-run=x dir1
git add --no-dry=x dir1
git show-ref --branches=x
git update-index --add=x dir1/file1
git update-index --cacheinfo=100644,$(stock rev-parse HEAD:dir1/file1),q
git hash-object --stdin=x
git for-each-ref --ours-label=x
git add --bogus=a=b --bogus dir1
git add ---

## -h among other letters, and --help-all
# needs git: 2.55
# exits: 129 129 129 129 129 129 129 129 129 129 129 129
history 1
for options in 'add -hx' 'add -nh' 'stash -qh' 'stash push -hq' 'repack -adh' 'update-index -qh' 'write-tree -hx' 'reflog expire -nh' 'add --help-all' 'stash pop --help-all' \
    'index-pack --help-all' 'commit-tree --help-all'; do
    git $options >out 2>/dev/null
    head -n 1 out | cut -c1-6
done
rm out

## no abbreviations
# exits: 129 129 129 129
history 1
git index-pack --verif x
git index-pack --std </dev/null
git unpack-objects --str </dev/null
git unpack-objects -n --bogus </dev/null

## options that change nothing, and other names of some
history 1
echo 1 >a
git write-tree --ignore-cache-tree --no-ignore-cache-tree
git write-tree --ign
git hash-object --no-filters --no-no-filters a
git show-ref --no-hash
git show-ref --no-hash --abbrev=5
git show-ref -hs7 main
git show-ref -ds4

## numbers behind a letter
# exits: 129 129 129
history 1
git show-ref -sd
git show-ref -s7d
git show-ref -qsd
git show-ref -s-4

## formats of refs are not taken back
# needs git: 2.55
# exits: 129 129
history 1
git refs migrate --no-ref-format
git refs migrate --ref-format=reftable --no-ref-format

## messages of stash save
# state: no-log-of-HEAD
history 1
for options in '-m x' '--message y' '--message=y z' 'z -m x' '-m x -m y' '--message=y --no-message'; do
    echo "$options" >dir1/file1
    git stash save $options
done
stock stash list

## pathspecs from a file are not taken back
# needs git: 2.55
# exits: 128
# state: no-log-of-HEAD
history 3
echo dir1/file1 >l
echo more | tee dir1/file1 >dir2/file2
git stash push --pathspec-from-file l --no-pathspec-from-file -- dir2
git stash push --pathspec-from-file l --no-pathspec-from-file
stock status --short
git stash push -q --no-pathspec-from-file -- dir2

## options of servers that are taken back
# needs git: 2.55
# exits: 128 128
git upload-pack --stateless-rpc --no-stateless-rpc --timeout=1 --no-timeout --no-http-backend-info-refs nothing
git receive-pack --no-stateless-rpc --no-skip-connectivity-check --no-http-backend-info-refs nothing

## numbers as in C
# needs git: 2.55
# exits: 129 129 129 129 129 129 129 129 129 129 129 129
history 2
for n in 010 0x10 ' 1' +1 0x1k -0 08 0xg '2 ' --1 99999999999999999999x 0x80000000; do
    git for-each-ref --count "$n" --format='%(refname)'
    git pack-objects --depth "$n" --threads=0x1 --stdout </dev/null | wc -c
done

## sizes as in C
# needs git: 2.55
# exits: 129 129 129 129 129
history 2
for n in 0x10 ' 010k' -0 18446744073709551616 17179869184g 99999999999999999999x 08; do
    git multi-pack-index repack --batch-size "$n"
done

## decimal numbers
# exits: 129 129
history 2
for n in 010 ' 7' +7 0x7 '7 '; do
    git show-ref --abbrev="$n"
done
git commit-graph write --reachable --changed-paths --max-new-filters ' 7'

## a number behind a letter that is none
# needs git: 2.55
# exits: 129 129 129 129
history 2
git repack -q -g x
git repack -qg3g
git repack -q -g -d
git repack -q --geometric x
git repack -q -g 0x2

## options of index-pack with and without an equals sign
# needs git: 2.55
# masks: usage
# exits: 129 129 129 129 129 129 129 129
history 2
git pack-objects --all -q p </dev/null >/dev/null
mv p-*.pack x.pack
git index-pack --threads 1 x.pack
git index-pack --index-version 2 x.pack
git index-pack --object-format sha1 x.pack
git index-pack --max-input-size 1 x.pack
git index-pack --verify=x x.pack
git index-pack -o
git unpack-objects --max-input-size 4 <x.pack
git unpack-objects -n=x <x.pack
git index-pack --threads=1 --index-version=2 --object-format=sha1 --max-input-size=' 9999' x.pack >/dev/null
rm -f p-* x.*

## help is asked for by its full name
# masks: usage
# exits: 129 129 129 129 129
history 1
git add --hel
git repack --he
git verify-pack --h
git reflog expire --hel
git symbolic-ref --hel HEAD

## messages of stash create that look like options
# state: no-objects
history 2
echo more >dir1/file1
for message in -h --help '-h x' 'x -h'; do
    stock log -1 --format=%s "$(git stash create $message)"
done

## packs without a name, and hashes that there are not
# exits: 1 1 1 1 1
history 1
git verify-pack ''
git verify-pack '' .idx
git verify-pack .pack
git verify-pack --object-format=x y z
git verify-pack -v --object-format= y

## a trace of encodings that are checked both ways
repository
printf '%s\n' '*.j working-tree-encoding=SHIFT-JIS' '*.l working-tree-encoding=ISO-8859-1' >.gitattributes
printf hallo >a.j
printf hallo >a.l
GIT_TRACE=1 git add a.j a.l 2>&1 | grep -o 'Checking.*'
GIT_TRACE=1 git hash-object a.j 2>&1 | grep -o 'Checking.*'
GIT_TRACE=1 git hash-object -w a.j 2>&1 | grep -o 'Checking.*'
GIT_TRACE=1 git -c core.checkRoundtripEncoding=iso-8859-1 hash-object -w a.j a.l 2>&1 | grep -o 'Checking.*'

## GIT_TRACE names the files of programs
# needs git: 2.55
# exits: 128 128
history 2
stock config filter.a.clean 'sed s/1/2/'
stock config filter.b.clean cat
stock config filter.c.clean "cat; true '%f'"
stock config filter.d.clean ./clean
stock config filter.none.clean no-such-program
printf '%s\n' '*.a filter=a' '*.b filter=b' '*.c filter=c' '*.d filter=d' '*.none filter=none' >.gitattributes
printf '#!/bin/sh\ncat\n' >clean
chmod +x clean
stock config filter.none.required true
for name in a b c d none; do
    echo 1 | GIT_TRACE_BARE=1 GIT_TRACE=1 git hash-object --stdin --path "file.$name"
done
mkdir -p .git/hooks
printf '#!/bin/sh\nexit 1\n' >.git/hooks/reference-transaction
chmod +x .git/hooks/reference-transaction
GIT_TRACE_BARE=1 GIT_TRACE="$PWD/trace" git update-ref refs/heads/x HEAD
grep -o 'start_command.*' trace
rm trace

## how subcommands of reflog are used
# masks: usage
# exits: 129 129 129 129 129 129 129 129
history 1
for command in show list exists write delete drop expire; do
    git reflog $command -h >out
    head -n 1 out | cut -c1-6
done
git reflog -h >out
head -n 1 out | cut -c1-6
rm out

## how commands are used
# needs git: 2.55
# masks: progress
# exits: any
repository
for command in add commit-graph commit-tree for-each-ref hash-object init multi-pack-index pack-objects pack-refs \
    receive-pack reflog refs repack show-ref stash symbolic-ref update-index update-ref upload-pack verify-pack write-tree \
    'stash push' 'stash save' 'stash list' 'stash show' 'stash drop' 'stash pop' 'stash apply' 'stash branch' 'stash clear' \
    'stash store' 'stash export' 'stash import' 'reflog show' 'reflog list' 'reflog exists' 'reflog write' 'reflog delete' \
    'reflog drop' 'reflog expire' 'commit-graph write' 'commit-graph verify' 'multi-pack-index write' \
    'multi-pack-index compact' 'multi-pack-index verify' 'multi-pack-index expire' 'multi-pack-index repack' \
    'refs migrate' 'refs verify' 'refs list' 'refs exists' 'refs optimize'; do
    git $command -h | sed '/^$/,$d'
done
for command in unpack-objects index-pack; do
    git $command -h | sed -n 1p
done
git stash --bogus 2>&1 | sed '/^$/,$d'
git stash push --bogus 2>&1 | sed '/^$/,$d'
## abbreviations that mean several options: the last two in git's order are named, above how the command is used
# needs git: 2.55
# exits: any
history 1
for options in 'stash push --a' 'stash push --i' 'stash pop --n' 'refs verify --n' 'init --n' 'init --s' 'pack-objects --a' 'pack-objects --no-wr' 'pack-objects --u' 'pack-objects --no-' \
    'repack --w' 'repack --c' 'update-index --in' 'update-index --r' 'commit-graph write --s' 'commit-graph --no-' 'multi-pack-index write --b' 'for-each-ref --no-s' 'add --no-i' 'add --n' \
    'show-ref --no-h' 'upload-pack --s' 'receive-pack --no-s' 'receive-pack --no-' 'hash-object --s' 'update-ref --n' 'stash --a' 'stash drop --no-' 'refs list --s' 'reflog expire --no-' \
    'for-each-ref --merged=nope --s' 'for-each-ref --s --merged=nope' 'commit-tree -p nope --no-' 'update-index new --in' 'show-ref --h' '-C / add --n'; do
    echo "$options"
    git $options </dev/null | sed '/^$/,$d'
done

## options by the names that were typed, and letters that are none
# needs git: 2.55
# exits: 129 129 129 129 129 129 129 129 129 129 129 129 129 129
history 1
for options in 'add --ignore-removal=x' 'add --no-ignore-rem=x' 'show-ref --heads=x' 'pack-objects --no-quiet=x' 'upload-pack --advertise-refs=' 'update-index --bogus' 'update-index -%' 'update-index --h' \
    'add -nä' 'stash push -ä' 'pack-objects --h --bogus' 'upload-pack --h --bogus' 'receive-pack --no-advertise-refs --bogus' 'pack-objects --no-write-bitmap-index-quiet --bogus'; do
    git $options </dev/null
done

## what is no option, behind options
# needs git: 2.55
# exits: 129 129 129 128 128
history 1
for options in 'pack-refs -- --bogus' 'pack-refs -' 'commit-graph -- --bogus' 'stash -q -' 'stash --end-of-options dir1'; do
    git $options </dev/null
done

## empty values
# needs git: 2.55
# exits: 128 128 128 128
history 1
git multi-pack-index --object-dir= write
git commit-graph write --object-dir=
git commit-graph verify --object-dir=nothing
git repack --filter-to= -d

## cruft packs that nothing expires from, and that are taken back
# needs git: 2.55
# exits: 128 129
history 3
stock repack -adq
pack=$(basename .git/objects/pack/*.pack)
echo "$pack" | git pack-objects --cruft-expiration -q out >/dev/null
ls | grep -c out
echo "$pack" | git pack-objects --cruft --no-cruft-expiration -q out
git pack-objects --cruft-expiration now -q out </dev/null
rm out*

## options that are given twice
# exits: 128 128
history 1
stock repack -adq
cp .git/objects/pack/*.pack x.pack
git index-pack --object-format=none --object-format=sha1 x.pack
git index-pack --object-format=sha1 --object-format=none x.pack
git index-pack --object-format=sha256 --object-format=sha1 x.pack >/dev/null
git update-ref --no-deref --no-no-deref HEAD HEAD
rm -f x.*

## of two things that are wrong, the first one is told
# exits: any
# state: no-objects no-fsck
# needs git: 2.55
history 2
echo new >new
while read -r command; do
    for wrong in --bogus '-?' --bogus=1; do
        echo "$command $wrong"
        git $command $wrong </dev/null
        git ${command%% -*} $wrong -${command#* -} </dev/null
        git ${command%% -*} surplus -${command#* -} $wrong </dev/null
    done
done <<'EOF'
for-each-ref --merged=nope
for-each-ref --points-at=nope
for-each-ref --color=x
for-each-ref --count=x
refs list --no-contains=nope
reflog expire --expire=zz
reflog expire --expire-unreachable=zz
commit-graph write --split=zz
commit-graph write --expire-time=zz
commit-tree -p nope
pack-objects --missing=zz
pack-objects --filter=zz
pack-objects --index-version=zz
pack-objects --stdin-packs=zz
repack --filter=zz
repack --write-midx=zz
repack --window=zz
repack --window-memory=zz
repack --depth=zz
repack --threads=zz
repack --name-hash-version=zz
maintenance run --task=zz
init --shared=zz
index-pack --index-version=zz
index-pack --object-format=zz
index-pack --strict=zz
pack-refs --include
multi-pack-index write --refs-snapshot
EOF
for words in 'new --chmod=x' 'new --index-version=x' 'new --bogus' '--add new --bogus' '--add new --chmod=x' '--add new gone --bogus' \
    '--cacheinfo=x --bogus' '--bogus --cacheinfo=x' 'new --cacheinfo=x' '--unresolve --bogus' '--bogus --unresolve' '--unresolve new --bogus' '--unr --chmod=x' '--unresolve -- new' \
    '--unresolve --' '--unresolve=x' '--again --bogus' '--ag --chmod=x' '-g --bogus' '-qg --bogus' '--again -- new' '--again new -h'; do
    echo "$words"
    git update-index $words
done
git stash --bogus push
git stash -q push
git ls-files -s

## pathspecs and options that do not go together
# exits: any
# needs git: 2.55
history 2
: >list
echo new >new
for file in --pathspec-from-file=list --pathspec-from-file=nothing --pathspec-file-nul; do
    for other in ':(bad)x' new --staged; do
        echo "$file $other"
        git add $file $other
        git stash push $file $other
        git stash push $other $file
    done
done
for wrong in --color=x --bogus; do
    git for-each-ref --merged=nope $wrong
    git for-each-ref $wrong --merged=nope
done
git multi-pack-index write --base=x --object-dir=nothing
git multi-pack-index write --object-dir=nothing --base=none
git stash list


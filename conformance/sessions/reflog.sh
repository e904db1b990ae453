# What refs were before.
# in: files reftable

## shown, of HEAD and of a branch
history 2
git update-ref -m 'first move' refs/heads/main HEAD~1
git update-ref -m 'second move' HEAD HEAD
git reflog
git reflog show main
git reflog main
git reflog -1
git reflog show -n 1 HEAD

## which refs have one
# exits: 1
history 2
stock branch a
git reflog list
git reflog exists refs/heads/a
git reflog exists refs/heads/none

## a name that is no ref
# masks: usage
# exits: 128 128 129 255
history 1
git reflog exists a..b
git reflog show nothing
git reflog exists
git reflog delete nothing@{0}

## entries are deleted
history 1
for n in 1 2 3 4; do tick; git update-ref -m "move $n" refs/heads/a HEAD^{commit} ; git update-ref -d refs/heads/none; done
for n in 1 2 3; do commit "file$n"; done
git reflog delete main@{1}
git reflog main
git reflog delete --dry-run main@{0}
git reflog delete --verbose main@{0}
git reflog main

## deleted with what hangs on them
history 1
for n in 1 2 3; do commit "file$n"; done
git reflog delete --rewrite main@{1}
git reflog delete --updateref main@{0}
git rev-parse main
git reflog main

## what cannot be deleted
# exits: 255 255
history 1
git reflog delete
git reflog delete main
git reflog delete main@{9}

## everything old goes
history 1
for n in 1 2 3; do commit "file$n"; done
git reflog expire --expire=now --all
git reflog main
git reflog expire --expire=never refs/heads/main

## what is unreachable goes earlier
history 1
for n in 1 2 3; do commit "file$n"; done
stock reset -q --hard HEAD~2
git reflog expire --expire=never --expire-unreachable=now --verbose main
git reflog main
git reflog HEAD

## only told what would go
history 1
for n in 1 2; do commit "file$n"; done
git reflog expire --dry-run --expire=now --verbose --all
git reflog main

## by configuration
history 1
for n in 1 2; do commit "file$n"; done
git -c gc.reflogExpire=now reflog expire --all
git reflog main
git -c gc.reflogExpire=never -c gc.reflogExpireUnreachable=never reflog expire --all
git -c 'gc.refs/heads/*.reflogExpire=never' -c gc.reflogExpire=now reflog expire main HEAD

## a ref that is not there
# needs git: 2.55
# exits: 255 129
history 1
git reflog expire --expire=now refs/heads/none
git reflog drop --all refs/heads/main

## --stale-fix
history 1
commit one
git reflog expire --stale-fix --expire=never --all
git reflog

## dates that make no sense
# exits: 128
history 1
git reflog expire --expire=nonsense --all

## subcommands and options that are not there
# exits: 129 129 128 255
# masks: usage
history 1
git reflog expire --bogus
git reflog delete --bogus main@{0}
git reflog bogus
git reflog list more

## dates select an entry
# exits: 128 128 128
# says: only goes back to
history 1
for n in 1 2 3; do commit "file$n"; done
git reflog show --date=iso main
git reflog show main@{1}
git reflog show main@{1} --date=iso
git reflog 'main@{2005-04-07 15:16:13 -0700}'
git reflog 'main@{2005-04-07 15:16:13 -0700}' --date=short
git reflog '@{now}' -1
git reflog 'main@{2001-01-01}'
git reflog 'main@{nonsense}'
git reflog main@{9}
git reflog main@{-1}
git -c log.date=iso reflog -1

## since and until
history 1
for n in 1 2 3 4; do commit "file$n"; done
git reflog --since='2005-04-07 15:17:00 -0700' main
git reflog --until='2005-04-07 15:17:00 -0700' main
git reflog --after='2005-04-07 15:16:00 -0700' --before='2005-04-07 15:18:00 -0700' --format='%gd %cI' main
git reflog --since=1.day.ago
git reflog --skip=1 -2
git reflog --skip 9

## formats of git log
# exits: 128 128
history 1
for n in 1 2; do commit "file$n"; done
git reflog show --format='%gd %gs' main
git reflog --no-abbrev-commit
git reflog --oneline --no-decorate
git reflog --pretty=oneline --no-abbrev
git reflog --abbrev=9 --format='%h %t %p|%H %T %P|%gD %gd %gn %ge' refs/heads/main
git reflog --date=raw --format='%gd %an %ae %al %aN %aE %aL %ad %aD %at %ai %aI %as'
git -c log.date=iso reflog --format='%gd %cn %ce %cl %cN %cE %cL %cd %cD %ct %ci %cI %cs'
git reflog --format='%s|%f|%b|%B|%+b|%-b|% s|%%|%n|%m|%x41|%zz|%'
git reflog --format='%Cred%C(bold blue)%C(auto)%h%Creset|%C(always,red)x|%G?|%(trailers)'
git reflog --pretty=format:%h
git reflog --format= -1
git -c pretty.own='%h %gs' reflog --pretty=own
git reflog --format=bogus
git reflog --date=bogus

## a format for trailers
history 1
tick
git reflog >/dev/null
stock commit -q --allow-empty -m subject -m 'body
of it' -m 'Signed-off-by: A <a@example.com>'
git reflog --format='%(trailers)|%(trailers:key=Signed-off-by,valueonly)|%b|%+b'
git reflog --format='%s%-b' -2

## an entry by its date is deleted
history 1
for n in 1 2 3; do commit "file$n"; done
git reflog delete 'main@{2005-04-07 15:16:30 -0700}'
git reflog main
git reflog delete --verbose 'main@{2001-01-01}'
git reflog main

## an entry of a word that is no date
# differs: the word is refused; git takes it for now, and deletes the last entry
history 1
commit one
git reflog delete 'main@{nonsense}'
git reflog main

## other options of git log
# exits: 128 128 128
history 2
commit one
stock notes add -m 'a note' HEAD
git reflog --stat
git reflog show --pretty=fuller -1
git reflog -p -1 HEAD
git reflog --format='%h%d %N' -2
git reflog --format='%<(12,trunc)%gs|%>(9)%gd' HEAD
git reflog --format='%(describe)|%(decorate)|%e|%gN %gE'
git reflog --decorate --no-color
git reflog --pretty=short -1
git reflog --pretty -1
git reflog --reverse
git reflog --all --author=Nobody
git reflog show main -- dir1
git reflog main --
git reflog -- nothing
git reflog HEAD~1 || echo no log
git reflog dir1
git reflog 'main@{2001-01-01}' --stat
git reflog 'main@{2001-01-01}' nothing
git reflog --no-such

## as the user has set it
history 2
stock tag a
git -c log.decorate=short reflog
git -c log.decorate=short reflog --format=%h
git -c color.ui=always reflog main
git -c color.diff=always reflog -1
git -c color.ui=never reflog
git -c pretty.own='%h%d' reflog --pretty=own
git -c log.showSignature=true reflog --format=%h
GIT_PAGER_IN_USE=1 git reflog -1

## a reflog without entries
# in: files reftable sha1
# exits: 128
history 2
stock reflog expire --expire=now --all
git reflog show main@{0}
git reflog show main
git reflog show main@{1}

## expired as of now, as a widely copied setting has it
# in: files reftable sha1
history 3
commit one
commit two
git -c gc.reflogExpire=0 -c gc.reflogExpireUnreachable=0 reflog expire --all
git reflog
commit three
git reflog expire --expire=0 --all
git reflog

## what expires by pattern, and stashes
# in: files reftable
repository
for year in 2001 2002 2003 2004 2005; do
    export GIT_COMMITTER_DATE="$year-06-01 12:00 +0000" GIT_AUTHOR_DATE="$year-06-01 12:00 +0000"
    id=$(stock commit-tree -m "$year" $(stock write-tree))
    for name in heads/main heads/a/b stash remotes/o/m; do
        stock update-ref --create-reflog -m "$year" refs/$name $id
    done
done
unset GIT_COMMITTER_DATE GIT_AUTHOR_DATE
for setting in 'reflogExpire=2003-01-01' 'refs/heads/*.reflogExpire=2002-01-01' 'refs/*.reflogExpireUnreachable=2004-01-01' \
    'refs/stash.reflogExpire=2003-01-01' 'reflogExpireUnreachable=now'; do
    git -c "gc.$setting" reflog expire --all -n --verbose
done
git -c gc.reflogExpire=now reflog expire --all
git stash list

## entries of a ref that cannot be
# in: files
# needs git: 2.55
# exits: 128
history 2
git reflog write refs/heads/main/below $(stock rev-parse HEAD~1 HEAD) nothing
git reflog list

## locks that are held
# in: files
# exits: 255 255 255
history 3
stock branch other
>.git/refs/heads/main.lock
git reflog expire --all --expire=now
git reflog list
git reflog expire --expire=now refs/heads/main refs/heads/other
git reflog delete refs/heads/main@{0}
rm .git/refs/heads/main.lock

## all of a linked work tree
# in: files reftable
history 3
stock worktree add -q linked
cd linked
commit one
git reflog expire --all --expire=now --dry-run --verbose
git reflog expire --single-worktree --all --expire=now --dry-run --verbose
cd ..
git reflog expire --all --expire=now --dry-run --verbose

## entries of a directory of refs
# in: files
# needs git: 2.55
# exits: 128
history 2
git reflog write refs/heads $(stock rev-parse HEAD~1 HEAD) nothing
git reflog list

## names of logs
history 3
stock clone -q . clone
commit one
cd clone
stock fetch -q
stock remote set-head origin main
stock tag --create-reflog tagged
stock update-ref --create-reflog refs/other/x main
stock branch heads/x
for name in origin origin/HEAD origin/main remotes/origin/main tagged tags/tagged heads/x other/x main HEAD @ main@{0}; do
    git reflog $name
    git reflog --format='%gd %gD' $name
done
stock symbolic-ref refs/tags/symbolic refs/heads/main
git reflog symbolic
git reflog expire --expire=now HEAD
git reflog
git reflog main@{100000000}

## the hook of transactions, of a new entry of a reflog
# needs git: 2.55
# exits: 128 128
history 2
cat >.git/hooks/reference-transaction <<'EOF'
#!/bin/sh
echo "$1" && cat && test "$1" != "$(cat refused)"
EOF
chmod +x .git/hooks/reference-transaction
for refused in none preparing prepared committed; do
    echo $refused >refused
    git reflog write refs/heads/main $(stock rev-parse HEAD~1 HEAD) x
    git reflog show main
done

## a last line without an end is no entry
# in: files
history 2
printf "$(stock rev-parse HEAD~1) $(stock rev-parse HEAD) A <a@x> 1112912053 +0000\tlast" >>.git/logs/refs/heads/main
git reflog show main
git update-ref refs/heads/new main@{0}

## what was before the oldest entry
# in: files reftable
# exits: 128 128 128
history 3
git reflog show main@{1}
stock reflog expire --expire=all --all
commit one
commit two
git reflog show main@{1}
git reflog show main@{2}
git reflog show main@{3}
git reflog exists @

## dates that are no numbers
# exits: 1 1
# state: no-log-of-HEAD
history 1
for text in ' 0' '0 ' +0; do
    echo "$text" >dir1/file1
    stock stash push -q
    git stash show "stash@{$text}"
    git stash drop -q "stash@{$text}"
done
echo more >dir1/file1
stock stash push -q
git stash show 'stash@{-0}'
git stash pop '0 '
stock stash drop -q

## times that reflogs are asked for
# exits: 128
history 2
for text in 3am '1 fortnight ago' '2 fridays ago' 1.d 20050407 2005-12 2100-01-01 @1 0 never; do
    echo "$text"
    git reflog expire --dry-run --verbose --expire="$text" HEAD | sort
done
git update-ref refs/heads/x 'HEAD@{3am yesterday}'
git update-ref refs/heads/y 'HEAD@{1x}'
git update-ref refs/heads/z 'HEAD@{foo}'

## times of reflogs that are none, and reflogs of refs that are none
# needs git: 2.55
# exits: 128 128 128 128 128 255 255 255
# state: no-fsck
history 2
stock commit -q --allow-empty -m one
git -c gc.reflogExpire reflog expire --all
git -c gc.reflogExpireUnreachable reflog expire --expire=now main
git -c gc.refs/x.reflogExpire reflog expire --all
git -c gc.reflogExpireUnreachable=maybe reflog expire --expire=never --expire-unreachable=never main
printf '[gc]\n\treflogExpire = maybe\n' >>.git/config
git reflog expire --all
stock config --unset gc.reflogExpire
stock symbolic-ref HEAD refs/heads/new
git reflog expire --expire=now HEAD
git reflog drop HEAD
git reflog delete 'HEAD@{0}'
git reflog exists HEAD
stock symbolic-ref HEAD refs/heads/main

## a locked stack of reftables, by exit codes
# in: reftable
# needs git: 2.55
# exits: 251 251 251 255 251
history 2
: >.git/reftable/tables.list.lock
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=reftable.lockTimeout GIT_CONFIG_VALUE_0=0
git reflog expire --expire=now main 2>/dev/null
git reflog expire --expire=now --all 2>/dev/null
git reflog delete HEAD@{0} main@{0} 2>/dev/null
git reflog delete nothing@{0} main@{0} 2>/dev/null
git reflog drop main 2>/dev/null
unset GIT_CONFIG_COUNT GIT_CONFIG_KEY_0 GIT_CONFIG_VALUE_0
rm .git/reftable/tables.list.lock
git reflog main

## reflogs that are not there, and numbers that are dates
# needs git: 2.55
# exits: 128 128 128
history 3
git branch b
stock reflog drop refs/heads/b
git reflog show 'b@{1}'
git reflog show 'b@{now}'
git reflog show b
git reflog show 'main@{1700000000}'
git reflog show 'main@{9}'
stock reflog drop HEAD
git reflog -1
git reflog show @

## commits in other encodings
# exits: 128
history 1
tree=$(stock write-tree)
latin() {
    printf "tree $tree\nauthor \351ve <a@b> 1112912600 +0000\ncommitter \351ve <a@b> 1112912600 +0000\n$1\ns\351ance\n\nb\366dy \244\n\nReviewed-by: \351ve\n" |
        stock hash-object -t commit -w --stdin --literally
}
for name in '' 'encoding ISO-8859-1\n' 'encoding none-such\n' 'encoding latin-1\n' 'encoding UTF-8\n' 'encoding iso8859-15\n' 'encoding windows-1252\n' 'encoding koi8-r\n'; do
    stock update-ref -m "x$name" refs/heads/main "$(latin "$name")"
done
stock update-ref -m 'zé' refs/heads/main HEAD~0^{} HEAD
stock update-ref -m 'zé' refs/heads/main main@{6}
stock update-ref -m "$(printf 'z\351')" refs/heads/main main@{2}
for setting in core.x=y i18n.logOutputEncoding=ISO-8859-1 i18n.commitEncoding=ISO-8859-1 i18n.logOutputEncoding=UTF-8 \
    i18n.logOutputEncoding=none-such i18n.logOutputEncoding=; do
    git -c $setting reflog show
    git -c $setting reflog show --format=oneline
    git -c $setting reflog show --format='%h %gs|%s|%f|%an|%ce|%aN|%b'
    git -c $setting reflog show --format='format:%B'
    git -c $setting -c i18n.commitEncoding=koi8-r reflog show --format='%s' -2
done
git for-each-ref --format='%(refname) %(contents)'
echo change >>dir1/file1
stock -c i18n.commitEncoding=ISO-8859-1 stash push -q -m "$(printf 'z\351')"
git stash list
git stash list --format='%gs|%s'
git -c i18n.logOutputEncoding=ISO-8859-1 stash list
git -c i18n.logOutputEncoding=ISO-8859-1 stash list --format='%gs|%s'
git -c i18n.logOutputEncoding reflog show

## of a ref to an object that is missing
# in: files
# exits: any
history 3
for number in 1 2 3; do
    echo "$number" >>dir1/file1
    stock stash -q
done
stock rev-parse stash@{2} stash@{1} stash@{0} HEAD >ids
while read -r id; do
    file=.git/objects/$(echo "$id" | sed 's|..|&/|')
    mv "$file" kept
    git stash list
    git stash list -1 --format=%H
    for name in stash refs/stash stash@{0} stash@{1} stash@{2} HEAD '' main main@{0} HEAD@{1} '@{0}' 'stash@{2030-01-01}'; do
        git reflog show $name
    done
    mv kept "$file"
done <ids
rm ids

## expired with --stale-fix, where something is missing
# in: files
# exits: any
# masks: paths words
well_used
keep() { rm -rf .git; cp -a kept .git; }
cp -a .git kept
for id in $(stock rev-parse stash loose side annotated HEAD~4); do
    file=.git/objects/$(echo "$id" | sed 's|..|&/|')
    rm -f "$file"
    git reflog expire --expire-unreachable=now --stale-fix refs/heads/main HEAD
    cat .git/logs/HEAD .git/logs/refs/heads/main
    keep
done
for harm in 'rm .git/objects/pack/*.idx' 'rm .git/objects/pack/*.pack' 'echo junk >.git/refs/heads/side' \
    'echo junk >.git/worktrees/linked/index' 'rm .git/index'; do
    eval "$harm"
    git reflog expire --expire-unreachable=now --stale-fix refs/heads/main HEAD
    cat .git/logs/HEAD .git/logs/refs/heads/main
    keep
done
rm -rf kept

## expired while a pack is away
# in: files
# differs: git empties the logs of refs whose object is missing
history 3
stock repack -adq
git update-ref refs/heads/main HEAD~1
git update-ref refs/heads/main HEAD~1
mv .git/objects/pack .git/kept
mkdir .git/objects/pack
git reflog expire --all --expire=never --expire-unreachable=now
rmdir .git/objects/pack
mv .git/kept .git/objects/pack
git reflog main

## entries for refs outside of refs/
# needs git: 2.55
# exits: 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128 128
history 3
old=$(stock rev-parse HEAD~1)
new=$(stock rev-parse HEAD)
for name in FOO FETCH_HEAD MERGE_HEAD AUTO_MERGE ORIG_HEAD HEAD BISECT_EXPECTED_REV MERGE_AUTOSTASH foo_HEAD refs main; do
    git reflog write $name nothing "$new" message
    git reflog write $name "$old" "$new" message
done

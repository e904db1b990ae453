//! Argument lists.

use super::Twins;

#[test]
fn options_that_make_no_sense() {
    Twins::run(
        "T add
         T add -A -u
         T add --ignore-missing x
         T add --chmod=y x
         T add --pathspec-from-file=- x
         T add --pathspec-file-nul
         T add ''
         T add nope
         T add -n nope
         T add -n --ignore-missing nope
         T add -A
         T add -u
         T add .
         T -c advice.addEmptyPathspec=false add
         T -c advice.addEmptyPathspec=true add",
    );
}

#[test]
fn files_come_change_and_go() {
    Twins::run(
        "!mkdir -p d/e && echo 1 > a && echo 2 > d/b && echo 3 > d/e/c && echo 4 > z
         T add -n .
         T add -v a
         T add -v a
         T add -v d
         T add -v .
         !git commit -qm 1 && echo 11 > a && rm d/b && echo new > d/n
         T add -n -A
         T add -n -u
         T add -n --no-all .
         T add -v --no-all .
         T add -v -u d
         !rm a && echo 5 > d/e/c
         T add -v --ignore-removal a d
         T add -v -u
         T add -v -A
         !git commit -qm 2 && rm -r d && echo file > d
         T add -v d
         !git commit -qm 3 && rm d && mkdir -p d/x && echo 1 > d/x/y
         T add -v d/x
         T add -v .
         !chmod +x z
         T add -v z
         !chmod -x z && git config core.fileMode false
         T add -v -A
         !echo 7 > z
         T add -v z",
    );
}

#[test]
fn ignored_paths() {
    Twins::run(
        "!printf '*.o\\nign/\\n/top\\n!keep.o\\n' > .gitignore && mkdir -p ign d/ign e sub
         !echo 1 > a.o && echo 1 > a && echo 1 > d/b.o && echo 1 > d/c && echo 1 > ign/x && echo 1 > d/keep.o && echo 1 > top && echo 1 > d/top
         !printf 'c\\n!b.o\\n' > sub/.gitignore && echo 1 > sub/b.o && echo 1 > sub/c && echo '*.user' > .git/info/exclude && echo 1 > x.user
         T add a.o
         T -c advice.addIgnoredFile=false add a.o
         T add a.o d ign
         T add -n --ignore-missing a.o
         T add -n --ignore-missing nope.o ign/nope
         T add -n a.o a
         T add 'a.*'
         T add '*.o'
         T add nope.o
         T add ign/x
         T add ign/ d/ign/
         T add ign/nope
         T add x.user
         T add :!d
         T add -v sub
         T add -v .
         T add -v -f ign
         T add ign
         !echo 2 > ign/x && echo 2 > ign/y
         T add ign
         T add ign/y
         T add -v ign/x
         T add -v -f -A
         !git rm -q -r --cached .
         T add -v d/b.o d/ ign/x a.o
         T add ':(literal)a.o'
         T add ':(glob)a.o'
         T add e e/ e/nope
         !echo '*.mine' > mine && git config core.excludesFile mine && echo 1 > a.mine
         T add a.mine
         T add -v .",
    );
}

#[test]
fn pathspecs() {
    Twins::run(
        "!mkdir -p d/e 'x y' && for f in a b.c d/a d/b.c d/e/b.c 'x y/z' '*' d/A; do echo \"$f\" > \"$f\"; done
         T add -n '*.c'
         T add -n ':(glob)*.c'
         T add -n ':(glob)**/b.c'
         T add -n ':(icase)D/A'
         T add -n d/ ':!d/e'
         T add -n ':^d'
         T add -n ':(exclude)d' a
         T add -n ':(literal)*'
         T add -n 'd/*'
         T add -n '\\*'
         T --literal-pathspecs version >/dev/null 2>&1; true
         GIT_LITERAL_PATHSPECS=1 T add -n '*'
         GIT_LITERAL_PATHSPECS=1 T add -n ':/a'
         GIT_ICASE_PATHSPECS=1 T add -n D/A
         GIT_GLOB_PATHSPECS=1 T add -n '*.c'
         GIT_NOGLOB_PATHSPECS=1 T add -n '*.c'
         T add ':(bad)a'
         T add ':(top'
         T add ':#x'
         T add ':@x'
         T add ':(glob,literal)x'
         T add -n :
         T add -n :/
         T add -n :/d/a :/a
         T add :x
         T add a/
         T add a/x
         T add ../x
         T add /nowhere
         cd d && T add -n .
         cd d && T add -n ../a e
         cd d && T add -n :/a
         cd d && T add -n '*.c'
         cd d && T add -n -A
         cd d && T add -n ':!e'
         cd d && T add ../../x
         cd d && T add -n \"$PWD/a\" \"$PWD\"
         cd d/e && T add -n ../..
         cd d && T add -v -u
         cd d && T add -v -A .
         cd d && T add -v -A
         T -C d add -v -n e
         T add 'x y/z'",
    );
}

#[test]
fn pathspecs_from_a_file() {
    Twins::run(
        "!for f in a b 'c d' 'e\"f'; do echo \"$f\" > \"$f\"; done
         printf 'a\\nnope\\n' | T add --pathspec-from-file=-
         printf '\"a\"\\n\"\\\\142\"\\r\\n' | T add -v --pathspec-from-file=-
         printf 'c d\\0e\"f\\0' | T add -v --pathspec-from-file=- --pathspec-file-nul
         printf '' | T add --pathspec-from-file=-
         T add --pathspec-from-file=/nowhere
         printf '\"a\\n' | T add --pathspec-from-file=-
         !echo new > new && echo new > list
         T add -v --pathspec-from-file=list",
    );
}

#[test]
fn modes_intents_and_refreshing() {
    Twins::run(
        "!echo 1 > a && ln -s a link && echo 1 > b
         T add -v --chmod=+x a
         T add -v --chmod=+x nope
         T add -v --chmod=+x a b link
         T add -v -n --chmod=-x a
         T add -v --chmod=-x a
         T add --chmod=-x -A
         !git commit -qm 1 && echo 1 > n && mkdir d && echo 1 > d/n
         T add -v -N -n n
         T add -v -N n d
         T add -v -N n
         !echo 2 > a
         T add -v -N a
         T add -N -A
         T add -v n
         !rm d/n
         T add -v -u
         !echo 3 > b && rm a && git update-index --no-assume-unchanged b
         T add --refresh .
         T add -v --refresh .
         T add --refresh nope
         T add --refresh -v nope b
         T add --refresh
         !touch -d '2001-01-01' b link
         T add --refresh b
         T add -v -A",
    );
}

#[test]
fn only_changes() {
    Twins::run(
        "!echo 1 > a && echo 1 > b && git add . && git commit -qm 1 && echo 2 > a && echo 2 > c
         T add -u c
         T add -u c a
         T add -v -u a
         T add -u nope
         !rm b
         T add -v -u .",
    );
}

#[test]
fn conflicts_are_resolved() {
    Twins::run(
        "!echo 1 > f && echo 1 > g && echo 1 > h && git add . && git commit -qm 1 && git checkout -q -b o && echo 2 > f && git rm -q g h && git commit -qam 2
         !git checkout -q - && echo 3 > f && echo 3 > g && echo 3 > h && git commit -qam 3
         !git merge o >/dev/null || true
         T add -n .
         T add --refresh -v .
         T add -v f
         !rm g
         T add -v --ignore-removal g
         T add -n g
         T add -v g
         T add -v -u
         T add -v -A",
    );
}

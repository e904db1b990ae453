//! Links, repositories, sparse checkouts, refused names.

use super::Twins;

#[test]
fn links_and_what_is_no_file() {
    Twins::run(
        "!mkdir d && echo 1 > d/c && ln -s d link && ln -s nowhere broken && ln -s loop loop && mkfifo fifo
         T add link/c
         T add link/
         T add -v link
         T add fifo
         T add -v -A
         T add .git
         T add .git/config
         !git commit -qm 1 && rm -r d link && mkdir real && echo 1 > real/c && ln -s real d && echo file > link
         T add -v d
         T add -v -A
         !git commit -qm 2 && rm link && mkfifo link
         T add -v link
         T add -v -A
         T add --ignore-errors -A
         !rm link && ln -s real link
         T add -v .
         !git config core.symlinks false && rm link && printf real2 > link
         T add -v link",
    );
}

#[test]
fn repositories_in_the_work_tree() {
    Twins::run(
        "!git init -q sub && git init -q unborn && git init -q third && mkdir -p empty/x dot && mkdir dot/.git && echo 1 > dot/f
         !for r in sub third; do (cd $r && echo 1 > f && mkdir g && echo 1 > g/h && git add . && git commit -qm x); done
         T add unborn
         T add -v .
         T add --ignore-errors -v .
         T add sub/f
         T add sub/
         T add third/g/h
         T add -v sub third
         T add sub/nope
         T add -v 'sub/*'
         !git rm -q -f --cached third && cd sub && echo 2 > f && git commit -qam 2
         T add -v third/f
         T -c advice.addEmbeddedRepo=false add third
         T add --no-warn-embedded-repo -v third/
         T add -v -u
         !rm -rf third && git rm -rq --cached dot
         T add -v dot
         T add -v -A --ignore-errors
         T add --chmod=+x sub
         !git init -q file2 && rm -rf file2 && echo 1 > file2 && git add file2 && rm file2 && git init -q file2 && cd file2 && git commit -q --allow-empty -m x
         T add -v file2",
    );
}

#[test]
fn sparse_checkouts() {
    for (mode, patterns) in [("--cone", "in"), ("--no-cone", "/in/ !/in/not")] {
        Twins::run(&format!(
            "!mkdir in out && echo 1 > in/a && echo 1 > out/b && echo 1 > top && echo 1 > in/not && git add . && git commit -qm x
             !git sparse-checkout set {mode} --no-sparse-index {patterns}
             T add out/b
             T add 'out/*'
             T add -u
             !mkdir -p out && echo 2 > out/b && echo 3 > out/c && echo 4 > in/d && echo 4 > in/not
             T add out/b
             T add -n out/b
             T -c advice.updateSparsePath=false add out/b
             T add out/c
             T add -v .
             T add -A
             T add out in
             T add --chmod=+x out/b
             T add --chmod=+x in/a out/b
             T add --refresh out/b
             T add --renormalize out/b
             T add --sparse -v out
             !rm -rf out
             T add -u
             T add out/b in/a
             T add --sparse out/b
             T add --sparse -v -A",
        ));
    }
}

#[test]
fn names_that_are_refused() {
    Twins::run_unchecked(
        "!echo 1 > 'git~1' && mkdir .gIt && echo 1 > .gIt/x && echo 1 > 'x\\y' && echo 1 > ok && ln -s ok .gitmodules
         T add 'git~1'
         T add -n 'git~1'
         T add .gIt/x
         T add 'x\\y'
         T add .gitmodules
         T add -v .
         T add -v --ignore-errors .
         T -c add.ignoreErrors=true add -v .
         T -c core.protectNTFS=false add -v 'git~1'
         T add -N -v .gIt",
    );
}

#[test]
fn flags_of_entries_are_honoured() {
    Twins::run(
        "!echo 1 > a && echo 1 > b && git add . && git update-index --assume-unchanged a && git update-index --skip-worktree b && echo 2 > a && echo 2 > b
         T add -v a b
         T add b
         T add -v -u
         T add -v -A
         !rm a b
         T add -v -A
         T add a",
    );
}

#[test]
fn case_that_does_not_count() {
    Twins::run(
        "!git config core.ignoreCase true && echo 1 > a && git add a && echo 2 > A && echo '*.O' > .gitignore && echo 1 > b.o
         T add -v b.o
         T add -v .gitignore",
    );
}

#[test]
fn no_work_tree() {
    Twins::run(
        "!mkdir inner && git init -q --bare inner/bare.git
         cd .git && T add .
         cd inner/bare.git && T add .
         GIT_DIR=.git T add -n .
         GIT_DIR=$PWD/.git T -C inner add -n .
         GIT_DIR=$PWD/.git GIT_WORK_TREE=$PWD T -C inner add -n .
         !touch .git/index.lock
         T add .
         T add nope
         !rm .git/index.lock
         T add -v .",
    );
}

#[test]
fn other_hashes_and_versions() {
    Twins::run(
        "!rm -rf .git && git init -q --object-format=sha256 && for i in 1 2 3 4 5 6 7 8 9; do echo $i > f$i; done
         T add .
         !git update-index --index-version 4 && echo 2 > f1
         T add -v -A
         !git update-index --split-index && echo 3 > f1 && echo new > n
         T add -v -A
         !git init -q sub
         T add -N sub f1
         !git config index.skipHash true && echo 4 > f1
         T add -u",
    );
}

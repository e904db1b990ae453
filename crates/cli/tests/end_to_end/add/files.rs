//! Contents of files, and unreadable files.

use super::Twins;

/// The files are old, because git converts and reports again what was written in the same second as its
/// index.
#[test]
fn line_endings_and_filters() {
    Twins::run(
        "!printf 'a\\r\\nb\\r\\n' > crlf && printf 'a\\nb\\n' > lf && printf 'a\\r\\nb\\n' > mixed && printf 'a\\0\\r\\n' > bin
         !touch -d '1 hour ago' crlf lf mixed bin
         !git config core.autocrlf input
         T add crlf
         !git config core.autocrlf true
         T add lf mixed
         T -c core.safecrlf=true add .
         T add -A
         !git commit -qm 1 && git config --unset core.autocrlf && echo '* text=auto' > .gitattributes
         T add -n -v --renormalize .
         T add -v --renormalize .
         T add -v --renormalize nope
         !git rm -q -f --cached lf
         T add -v --renormalize
         !rm mixed
         T add --renormalize mixed
         T add -v -A
         !echo 'f* filter=bad' > .gitattributes && echo 1 > f1 && echo 2 > f2
         !touch -d '1 hour ago' f1 f2
         T -c filter.bad.clean=false add f1
         T -c filter.bad.clean=false -c filter.bad.required=true add -v .
         T -c filter.bad.clean=false -c filter.bad.required=true add -v --ignore-errors .
         !git config filter.bad.clean 'tr 0-9 a-z'
         T add -v f1 f2
         T add -v --renormalize f1",
    );
}

#[test]
fn big_files_are_streamed() {
    Twins::run(
        "!echo small > a && head -c 3000000 /dev/zero > big && head -c 300000 /dev/urandom > /dev/null && git config core.bigFileThreshold 100k
         T add -n big
         T add -v a big
         !echo 1 >> big && echo '* text' > .gitattributes
         T add -v .
         !git init -q sub && rm big
         T add -v -u",
    );
}

#[test]
fn many_files_in_many_directories() {
    let twins = Twins::new();
    twins
        .both("for d in a b c/d c/e; do mkdir -p $d; for i in $(seq 200); do echo $d $i > $d/$i; done; done");
    twins.check("T add -v a");
    twins.check("T add -v .");
    twins.both("for i in $(seq 1 3 200); do echo changed $i > b/$i; rm a/$i; done");
    twins.check("T add -v -A");
    twins.check("T add -v -A");
    twins.check("T add -v a/2 a/3 b/4 c");
}

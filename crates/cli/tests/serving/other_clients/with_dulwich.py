"""dulwich as a client: clone, shallow, fetch and push; prints the id that came of it."""
import sys

from dulwich import porcelain
from dulwich.repo import Repo

action, url, folder = sys.argv[1:4]
if action == "clone":
    repo = porcelain.clone(url, folder, errstream=sys.stderr.buffer)
elif action == "shallow":
    repo = porcelain.clone(url, folder, depth=1, errstream=sys.stderr.buffer)
elif action == "fetch":
    repo = Repo(folder)
    fetched = porcelain.fetch(repo, url, errstream=sys.stderr.buffer)
    print(fetched.refs[b"refs/heads/main"].decode())
    sys.exit()
elif action == "push":
    repo = Repo(folder)
    repo.get_worktree().commit(message=b"by dulwich", committer=b"A <a@b.c>", author=b"A <a@b.c>")
    porcelain.push(repo, url, b"HEAD:refs/heads/" + sys.argv[4].encode(), errstream=sys.stderr.buffer)
print(repo.head().decode())

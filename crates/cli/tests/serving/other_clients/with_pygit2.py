"""pygit2 (libgit2) as a client: clone, shallow, fetch and push; prints the id that came of it."""
import sys

import pygit2

action, url, folder = sys.argv[1:4]
if action == "clone":
    repo = pygit2.clone_repository(url, folder)
elif action == "shallow":
    repo = pygit2.clone_repository(url, folder, depth=1)
else:
    repo = pygit2.Repository(folder)
if action == "fetch":
    repo.remotes["origin"].fetch()
    print(repo.references["refs/remotes/origin/main"].target)
    sys.exit()
if action == "push":
    who = pygit2.Signature("A", "a@b.c")
    repo.create_commit("HEAD", who, who, "by pygit2", repo.head.peel().tree_id, [repo.head.target])
    repo.remotes["origin"].push([f"{repo.head.name}:refs/heads/{sys.argv[4]}"])
print(repo.head.target)

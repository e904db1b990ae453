// go-git as a client: clone, shallow clone, fetch and push; prints the id that came of it.

package main

import (
	"fmt"
	"os"
	"time"

	git "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

func run(action, url, folder string, more []string) (plumbing.Hash, error) {
	none := plumbing.ZeroHash
	var repo *git.Repository
	var err error
	switch action {
	case "clone":
		repo, err = git.PlainClone(folder, false, &git.CloneOptions{URL: url})
	case "shallow":
		repo, err = git.PlainClone(folder, false, &git.CloneOptions{URL: url, Depth: 1})
	default:
		repo, err = git.PlainOpen(folder)
	}
	if err != nil {
		return none, err
	}
	name := "HEAD"
	if action == "fetch" {
		if err := repo.Fetch(&git.FetchOptions{}); err != nil {
			return none, err
		}
		name = "refs/remotes/origin/main"
	}
	if action == "push" {
		tree, err := repo.Worktree()
		if err != nil {
			return none, err
		}
		author := &object.Signature{Name: "A", Email: "a@b.c", When: time.Now()}
		if _, err := tree.Commit("by go-git", &git.CommitOptions{Author: author}); err != nil {
			return none, err
		}
		head, err := repo.Head()
		if err != nil {
			return none, err
		}
		spec := config.RefSpec(head.Name().String() + ":refs/heads/" + more[0])
		if err := repo.Push(&git.PushOptions{RefSpecs: []config.RefSpec{spec}}); err != nil {
			return none, err
		}
	}
	id, err := repo.ResolveRevision(plumbing.Revision(name))
	if err != nil {
		return none, err
	}
	return *id, nil
}

func main() {
	id, err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(id)
}

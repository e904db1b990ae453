// isomorphic-git as a client: clone, shallow, fetch and push; prints the id that came of it.
import fs from 'node:fs'
import { createRequire } from 'node:module'

const require = createRequire(process.env.PACKRACE_CLIENTS + '/')
const git = require('isomorphic-git')
const http = require('isomorphic-git/http/node')

const [action, url, dir, name] = process.argv.slice(2)
const repo = { fs, http, dir, url, remote: 'origin' }
if (action === 'clone') await git.clone(repo)
if (action === 'shallow') await git.clone({ ...repo, depth: 1, singleBranch: true })
if (action === 'fetch') console.log((await git.fetch({ ...repo, ref: 'main' })).fetchHead)
if (action === 'push') {
  const who = { name: 'A', email: 'a@b.c' }
  await git.commit({ ...repo, message: 'by isomorphic-git', author: who, committer: who })
  const pushed = await git.push({ ...repo, ref: await git.currentBranch(repo), remoteRef: `refs/heads/${name}` })
  if (!pushed.ok) throw new Error(JSON.stringify(pushed))
}
if (action !== 'fetch') console.log(await git.resolveRef({ fs, dir, ref: 'HEAD' }))

// JGit as a client: clone, fetch and push; prints the id that came of it.

import java.io.File;
import org.eclipse.jgit.api.Git;
import org.eclipse.jgit.transport.RefSpec;
import org.eclipse.jgit.transport.PushResult;
import org.eclipse.jgit.transport.RemoteRefUpdate;

class WithJgit {
    public static void main(String[] args) throws Exception {
        String action = args[0], url = args[1];
        File folder = new File(args[2]);
        try (Git git = action.equals("clone") ? Git.cloneRepository().setURI(url).setDirectory(folder).call() : Git.open(folder)) {
            String name = "HEAD";
            if (action.equals("fetch")) {
                git.fetch().call();
                name = "refs/remotes/origin/main";
            }
            if (action.equals("push")) {
                git.commit().setMessage("by JGit").setAuthor("A", "a@b.c").setCommitter("A", "a@b.c").call();
                RefSpec ref = new RefSpec("HEAD:refs/heads/" + args[3]);
                for (PushResult result : git.push().setRefSpecs(ref).call()) {
                    for (RemoteRefUpdate update : result.getRemoteUpdates()) {
                        if (update.getStatus() != RemoteRefUpdate.Status.OK) {
                            throw new Exception(update.toString());
                        }
                    }
                }
            }
            System.out.println(git.getRepository().resolve(name).name());
        }
    }
}

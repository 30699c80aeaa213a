/* Entry: signals cancel the root context; everything else is the applets' business. */
#include <signal.h>
#include <unistd.h>

#include "cli/cli.h"
#include "main/applets.h"

#define EXIT_INTERRUPTED 130

static Ctx *root;
static volatile sig_atomic_t interrupted;

/* The first signal lets the work end in order; the second does not wait for it. */
static void
on_signal (int number)
{
  if (interrupted)
    _exit (EXIT_INTERRUPTED);
  interrupted = 1;
  ctx_cancel (root);
}

int
main (int argc, char **argv)
{
  struct sigaction ending = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
  struct sigaction ignored = { .sa_handler = SIG_IGN };
  root = ctx_new ();
  sigaction (SIGINT, &ending, NULL);
  sigaction (SIGTERM, &ending, NULL);
  sigaction (SIGHUP, &ending, NULL);
  sigaction (SIGPIPE, &ignored, NULL);
  sigaction (SIGXFSZ, &ignored, NULL); /* a file too large for the limit is an error like a full disk */
  int status = cli_main (root, &applets, &places, argc, argv);
  ctx_unref (root);
  return status;
}

/* File operations that fail, for tests: this program's own open, write, rename and so on stand in place of the C library's, count
 * those below one folder, and make the n-th of a kind fail or kill the process. Test code only. */
#pragma once

#include <glib.h>

typedef enum {
  IO_OPEN,
  IO_MKDIR,
  IO_READ,
  IO_WRITE,
  IO_TRUNCATE,
  IO_SYNC,
  IO_RENAME,
  IO_REMOVE,
  N_IO_KINDS,
} IoKind;

/* How the mount of the folder differs from a disk's. */
typedef enum {
  IO_MOUNT_OWNS_MODES = 1 << 0, /* as SMB does: the mode is 0777 and cannot be changed */
  IO_MOUNT_NO_SPACE = 1 << 1,   /* a FUSE without statfs: no blocks at all */
  IO_MOUNT_VAST = 1 << 2,       /* more bytes are free than 64 bits hold */
  IO_MOUNT_NO_BLOCKS = 1 << 3,  /* files have none, and little is free */
} IoMount;

/* From now on, until called with 0: the mount has these traits (IoMount). Everywhere, not below the folder alone. */
void io_faults_mount (guint traits);

/* From now on: the n-th operation (1 the first) of `kind` below `folder` fails with `number`. N_IO_KINDS: of any kind. */
void io_faults_arm (const char *folder, IoKind kind, guint nth, int number);
/* The same with the end of the process, at once, in place of the operation. */
void io_faults_arm_death (const char *folder, guint nth);
/* Calls `before` once, before the next directory below `folder` is made. */
void io_faults_before_mkdir (const char *folder, void (*before) (gpointer data), gpointer data);
/* Operations of each kind since it was armed; nothing fails from now on. */
void io_faults_disarm (guint out_counts[N_IO_KINDS]);

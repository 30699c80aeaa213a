#include "delivery/volume_model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "delivery/directory_check.h"
#include "delivery/volume_marker.h"

#define GROWING_FOLDER "files"

static char *
model_path (const char *volume)
{
  return g_build_filename (volume, VOLUME_MODEL_FOLDER, NULL);
}

char *
volume_model_growing_path (const VolumeWork *work)
{
  return g_build_filename (volume_work_path (work), GROWING_FOLDER, NULL);
}

static gboolean
is_marked (const char *volume, const Artifact *artifact)
{
  Digest digest;
  g_auto (VolumeMarker) marker = { 0 };
  g_autoptr (GError) problem = NULL;
  g_autofree char *path = g_build_filename (volume, VOLUME_MARKER, NULL);
  g_autoptr (GBytes) bytes = file_read (path, VOLUME_MARKER_MAX_BYTES, &problem);
  gsize size = 0;
  gconstpointer text = bytes != NULL ? g_bytes_get_data (bytes, &size) : NULL;
  gboolean is_read = bytes != NULL && volume_marker_parse (text, size, &marker, &problem);
  am_ignore (&problem, "no marker, or none of ours");
  return is_read && digest_parse (marker.digest, &digest, NULL) && digest_equal (&digest, &artifact->digest)
         && strcmp (marker.model_path, VOLUME_MODEL_FOLDER) == 0;
}

static gboolean
has_archives (const Artifact *artifact)
{
  for (guint i = 0; i < artifact->model->layers->len; i++)
    if (g_array_index (artifact->model->layers, ModelpackLayer, i).codec != MODELPACK_RAW)
      return TRUE;
  return FALSE;
}

static gboolean
directory_is_empty (const char *path, gboolean *out_is_empty, GError **error)
{
  g_autoptr (GPtrArray) names = file_list_dir (path, error);
  *out_is_empty = names != NULL && names->len == 0;
  return names != NULL;
}

gboolean
volume_model_look (Ctx *ctx, const char *volume, const Artifact *artifact, const TransferEvents *events,
                   VolumeState *out_state, gboolean *out_is_marked, GError **error)
{
  struct stat info;
  gboolean holds = FALSE, is_empty = FALSE;
  g_autoptr (GError) problem = NULL;
  g_autofree char *path = model_path (volume);
  *out_state = VOLUME_EMPTY;
  *out_is_marked = is_marked (volume, artifact);
  if (lstat (path, &info) < 0)
    return errno == ENOENT || am_fail_errno (error, errno, "cannot look at %s", path);
  *out_state = VOLUME_OTHER;
  if (!S_ISDIR (info.st_mode))
    return TRUE;
  if (!directory_is_empty (path, &is_empty, &problem)
      || (!is_empty && !has_archives (artifact)
          && !directory_holds_artifact (ctx, path, artifact, events, &holds, &problem)))
    {
      /* Another takes the model back while we read it. */
      if (am_error_is (problem, AM_ERROR_NOT_FOUND))
        return TRUE;
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  if (is_empty)
    *out_state = VOLUME_EMPTY;
  else if (holds || (has_archives (artifact) && *out_is_marked))
    *out_state = VOLUME_WHOLE;
  return TRUE;
}

static gboolean
take_back (const char *volume, const char *growing, GError **error)
{
  struct stat info;
  g_autofree char *path = model_path (volume), *marker = g_build_filename (volume, VOLUME_MARKER, NULL);
  if (unlink (marker) < 0 && errno != ENOENT)
    return am_fail_errno (error, errno, "cannot remove %s", marker);
  if (!file_sync_dir (volume, error))
    return FALSE;
  if (lstat (path, &info) < 0)
    return errno == ENOENT || am_fail_errno (error, errno, "cannot look at %s", path);
  if (!S_ISDIR (info.st_mode))
    return file_remove_tree (path, error);
  /* What was shown has the more of what is right. */
  if (!file_remove_tree (growing, error))
    return FALSE;
  return rename (path, growing) == 0 || errno == ENOENT
         || am_fail_errno (error, errno, "cannot take %s back to mend it", path);
}

gboolean
volume_model_begin (const char *volume, const VolumeWork *work, gboolean takes_back, GError **error)
{
  g_autofree char *growing = volume_model_growing_path (work);
  if (takes_back && !take_back (volume, growing, error))
    return FALSE;
  if (mkdir (growing, 0755) < 0 && errno != EEXIST)
    return am_fail_errno (error, errno, "cannot create %s", growing);
  /* Pods of other users read it. */
  am_autofd int fd = open (growing, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return am_fail_errno (error, errno, "cannot use %s", growing);
  return file_set_mode (fd, 0755) || am_fail_errno (error, errno, "cannot set the mode of %s", growing);
}

gboolean
volume_model_publish (const char *volume, const VolumeWork *work, GError **error)
{
  g_autofree char *growing = volume_model_growing_path (work), *path = model_path (volume);
  if (rmdir (path) < 0 && errno != ENOENT && errno != ENOTEMPTY && errno != EEXIST)
    return am_fail_errno (error, errno, "cannot put the model at %s", path);
  if (rename (growing, path) < 0)
    return errno == ENOTEMPTY || errno == EEXIST
             ? am_fail (error, AM_ERROR_ABORTED, "VolumeBusy", "%s appeared in the meantime", path)
             : am_fail_errno (error, errno, "cannot put the model at %s", path);
  return file_sync_dir (volume_work_path (work), error) && file_sync_dir (volume, error);
}

gboolean
volume_model_mark (const char *volume, const VolumeWork *work, const Artifact *artifact, guint n_files,
                   GError **error)
{
  gsize size = 0;
  char digest[DIGEST_STRING_SIZE];
  digest_format (&artifact->digest, digest);
  g_autoptr (GDateTime) now = g_date_time_new_now_utc ();
  g_autofree char *ready_at = g_date_time_format (now, "%Y-%m-%dT%H:%M:%SZ");
  g_autofree char *path = g_build_filename (volume, VOLUME_MARKER, NULL);
  const VolumeMarker marker = { .version = (char *) "v1",
                                .digest = digest,
                                .media_type = artifact->media_type,
                                .model_path = (char *) VOLUME_MODEL_FOLDER,
                                .ready_at = ready_at,
                                .size_bytes = artifact->total_bytes,
                                .n_files = n_files };
  g_autofree char *text = volume_marker_format (&marker, &size);
  g_autoptr (TempFile) temp = temp_file_new (volume_work_path (work), error);
  return temp != NULL && temp_file_write (temp, text, size, error) && temp_file_sync (temp, error)
         && temp_file_publish (temp, path, FALSE, error) && file_sync_dir (volume, error);
}

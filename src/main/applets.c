#include "main/applets.h"

#include "cli/commands.h"
#include "main/controller_applet.h"
#include "main/materialize_applet.h"
#include "main/publish_applet.h"
#include "main/upload_gateway_applet.h"

static const Applet rows[] = {
  { .command = &push_command },       { .command = &pull_command },        { .command = &inspect_command },
  { .command = &verify_command },     { .command = &list_command },        { .command = &rm_command },
  { .command = &copy_command },       { .command = &serve_command },       { .command = &controller_command },
  { .command = &publish_command },    { .command = &materialize_command }, { .command = &upload_gateway_command },
  { .command = &completion_command },
};

const AppletTable applets = { rows, G_N_ELEMENTS (rows) };

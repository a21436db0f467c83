/* commands.c -- the table of commands, and running one. */
#include "storage/storage_int.h"

static const struct storage_command commands[] = {
#define STORAGE_COMMAND(id, name) {name, storage_##id},
#include "storage/commands.def"
#undef STORAGE_COMMAND
};

const struct storage_command *storage_command_find(const char *name)
{
    for (size_t i = 0; i < TY_COUNT(commands); i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

int storage_run(struct storage *s, const struct storage_command *command,
                const struct storage_options *o, char **words, int count)
{
    if (s->command == NULL)
        s->command = command->name;
    return command->run(s, o, words, count);
}

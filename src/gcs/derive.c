/* derive.c -- objects made from objects: copy, rewrite, move, compose, restore.
 *
 * Settings named in the body replace the source's, all of them, as there; a body that names none
 * keeps them. A rewrite is always done in one call. */
#include "gcs/gcs_int.h"

/* What a copy or move needs, from the request. */
struct derivation {
    struct object_ref source;
    struct object_conditions source_conditions, conditions;
    struct object_settings settings;
    struct object_target target;
};

static ty_err settings_of(struct http_request *req, struct derivation *d)
{
    json_t *in = NULL;
    ty_err err = body_parse(req->body, &in);
    if (err == TY_OK && in && settings_given(in)) {
        err = settings_apply(req->arena, in, &d->settings);
        d->target.settings = &d->settings;
    }
    json_decref(in);
    return err;
}

static ty_err derivation_parse(struct http_request *req, ty_str bucket, ty_str name,
                               struct derivation *d)
{
    *d = (struct derivation){
        .source = {.bucket = req->capture[0], .name = req->capture[1]},
        .target = {.bucket = bucket, .name = name, .conditions = &d->conditions},
    };
    ty_err err = encryption_refuse(req);
    if (err == TY_OK)
        err = http_query_i64(req, "sourceGeneration", 0, &d->source.generation);
    if (err == TY_OK)
        err = conditions_parse(req, "Source", &d->source_conditions);
    if (err == TY_OK)
        err = conditions_parse(req, "", &d->conditions);
    return err == TY_OK ? settings_of(req, d) : err;
}

static ty_err copy(struct http_request *req, struct gcs *g, struct object *ret_object)
{
    struct derivation d;
    ty_err err = derivation_parse(req, req->capture[2], req->capture[3], &d);
    if (err == TY_OK)
        err = change_check(g, req, d.target.bucket, d.target.name);
    if (err == TY_OK)
        err = objects_copy(g->objects, req->arena, d.source, &d.source_conditions, &d.target,
                           ret_object);
    return err;
}

ty_err object_copy(struct http_request *req, struct http_response *res, void *ctx)
{
    struct object object = {0};
    ty_err err = copy(req, ctx, &object);
    if (err == TY_OK)
        object_json(&res->body, link_base(req), &object);
    return answer_with(req, res, err);
}

ty_err object_rewrite(struct http_request *req, struct http_response *res, void *ctx)
{
    struct object object = {0};
    ty_err err = copy(req, ctx, &object);
    if (err != TY_OK)
        return answer_with(req, res, err);
    ty_buf_addz(&res->body, "{\"kind\":\"storage#rewriteResponse\"");
    member_i64(&res->body, "totalBytesRewritten", object.size);
    member_i64(&res->body, "objectSize", object.size);
    ty_buf_addz(&res->body, ",\"done\":true,\"resource\":");
    object_json(&res->body, link_base(req), &object);
    ty_buf_addc(&res->body, '}');
    return TY_OK;
}

ty_err object_move(struct http_request *req, struct http_response *res, void *ctx)
{
    struct gcs *g = ctx;
    struct derivation d;
    struct object object = {0};
    ty_err err = derivation_parse(req, req->capture[0], req->capture[2], &d);
    if (err == TY_OK)
        err = change_check(g, req, d.source.bucket, d.source.name);
    if (err == TY_OK)
        err = change_check(g, req, d.target.bucket, d.target.name);
    if (err == TY_OK)
        err = objects_move(g->objects, req->arena, d.source, &d.source_conditions, &d.target,
                           &object);
    if (err == TY_OK)
        object_json(&res->body, link_base(req), &object);
    return answer_with(req, res, err);
}

ty_err object_restore(struct http_request *req, struct http_response *res, void *ctx)
{
    struct gcs *g = ctx;
    struct object_conditions c;
    struct object_ref ref;
    struct object object = {0};
    ty_err err = ref_parse(req, &ref);
    if (err == TY_OK && ref.generation == 0)
        err = ty_fail(TY_INVALID_ARGUMENT, "generation: is required: which one to restore");
    if (err == TY_OK)
        err = conditions_parse(req, "", &c);
    ref.soft_deleted = true;
    if (err == TY_OK)
        err = change_check(g, req, ref.bucket, ref.name);
    if (err == TY_OK)
        err = objects_restore(g->objects, req->arena, ref, &c, &object);
    if (err == TY_OK)
        object_json(&res->body, link_base(req), &object);
    return answer_with(req, res, err);
}

/* ---- compose ---- */

/* A generation is a number or its text; 0 when absent. */
static ty_err generation_of(const json_t *value, const char *field, int64_t *ret_generation)
{
    *ret_generation = 0;
    if (!value || json_is_null(value))
        return TY_OK;
    if (json_is_integer(value)) {
        *ret_generation = (int64_t)json_integer_value(value);
        return TY_OK;
    }
    ty_str text = {json_string_value(value), json_string_length(value)};
    if (!json_is_string(value) || ty_parse_i64(text, ret_generation) != TY_OK)
        return ty_fail(TY_INVALID_ARGUMENT, "sourceObjects[].%s: must be a generation", field);
    return TY_OK;
}

static ty_err part_parse(struct http_request *req, const json_t *in, struct object_part *part)
{
    const json_t *conditions = json_object_get(in, "objectPreconditions");
    const json_t *match = json_object_get(conditions, "ifGenerationMatch");
    part->name = ty_str_dup(req->arena, wire_json_get_str(in, "name"));
    ty_err err = generation_of(json_object_get(in, "generation"), "generation", &part->generation);
    if (err != TY_OK || !match)
        return err;
    struct object_conditions *c = ty_new(req->arena, struct object_conditions);
    c->given = OBJECTS_IF_GENERATION;
    part->conditions = c;
    return generation_of(match, "objectPreconditions.ifGenerationMatch", &c->generation_match);
}

static ty_err parts_parse(struct http_request *req, const json_t *in, struct object_part *parts,
                          size_t *ret_count)
{
    const json_t *list = json_object_get(in, "sourceObjects");
    size_t count = json_array_size(list);
    if (count == 0 || count > OBJECTS_COMPOSE)
        return ty_fail(TY_INVALID_ARGUMENT, "sourceObjects: must be a list of 1 to %d objects",
                       OBJECTS_COMPOSE);
    if (json_is_true(json_object_get(in, "deleteSourceObjects")))
        return ty_fail(TY_UNIMPLEMENTED,
                       "deleteSourceObjects: delete them with calls of their own");
    ty_err err = TY_OK;
    for (size_t i = 0; i < count && err == TY_OK; i++)
        err = part_parse(req, json_array_get(list, i), &parts[i]);
    *ret_count = count;
    return err;
}

/* Hashes in the destination are passed over, as there: gcloud puts the first part's into it, and
 * Python those of the object that is to be replaced. */
static ty_err compose(struct http_request *req, struct gcs *g, const json_t *in,
                      struct object *ret_object)
{
    struct object_conditions c;
    struct object_settings settings = {0};
    struct object_part parts[OBJECTS_COMPOSE] = {0};
    size_t count = 0;
    const json_t *destination = json_object_get(in, "destination");
    ty_err err = encryption_refuse(req);
    if (err == TY_OK)
        err = conditions_parse(req, "", &c);
    if (err == TY_OK)
        err = parts_parse(req, in, parts, &count);
    if (err == TY_OK && destination)
        err = settings_apply(req->arena, destination, &settings);
    struct object_target target = {req->capture[0], req->capture[1], &c, &settings};
    if (err == TY_OK)
        err = change_check(g, req, target.bucket, target.name);
    if (err == TY_OK)
        err = objects_compose(g->objects, req->arena, &target, parts, count, NULL, ret_object);
    return err;
}

ty_err object_compose(struct http_request *req, struct http_response *res, void *ctx)
{
    struct object object = {0};
    json_t *in = NULL;
    ty_err err = body_parse(req->body, &in);
    if (err == TY_OK)
        err = compose(req, ctx, in, &object);
    json_decref(in);
    if (err == TY_OK)
        object_json(&res->body, link_base(req), &object);
    return answer_with(req, res, err);
}

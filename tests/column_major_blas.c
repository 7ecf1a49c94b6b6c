/* cuBLASLt's functions for a product of float32 matrices in the memory of the host, after NVIDIA's documentation.
 *
 * It offers three algorithms, of which the second cannot run.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct { uint64_t data[8]; } Algo;
typedef struct { Algo algo; size_t workspace; int state; float waves; int reserved[4]; } Result;
typedef struct { int type; uint64_t rows, columns; int64_t ld; } Layout;
typedef struct { int compute, scale, sm_target, a_t, b_t; uint32_t epilogue; const float *bias; } Operation;
typedef struct { uint64_t workspace; } Preference;

enum { SUCCESS = 0, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };
enum { EPILOGUE_RELU = 2, EPILOGUE_BIAS = 4 };

int descriptors = 0, asked_sm_target = -1, asked_algorithm = -1;

const char *cublasLtGetStatusName(int status) {
    return status == INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE" : "CUBLAS_STATUS_NOT_SUPPORTED";
}

int cublasLtCreate(void **handle) { *handle = &descriptors; return SUCCESS; }

int cublasLtMatmulDescCreate(Operation **made, int compute, int scale) {
    *made = calloc(1, sizeof **made);
    (*made)->compute = compute, (*made)->scale = scale, (*made)->epilogue = 1;
    descriptors++;
    return SUCCESS;
}

int cublasLtMatrixLayoutCreate(Layout **made, int type, uint64_t rows, uint64_t columns, int64_t ld) {
    *made = malloc(sizeof **made);
    **made = (Layout){type, rows, columns, ld};
    descriptors++;
    return ld >= (int64_t)rows ? SUCCESS : INVALID_VALUE;
}

int cublasLtMatmulPreferenceCreate(Preference **made) {
    *made = calloc(1, sizeof **made);
    descriptors++;
    return SUCCESS;
}

int cublasLtMatmulDescDestroy(Operation *each) { free(each); descriptors--; return SUCCESS; }
int cublasLtMatrixLayoutDestroy(Layout *each) { free(each); descriptors--; return SUCCESS; }
int cublasLtMatmulPreferenceDestroy(Preference *each) { free(each); descriptors--; return SUCCESS; }

static int set(void *field, size_t size, const void *value, size_t given) {
    if (size != given) return INVALID_VALUE;
    memcpy(field, value, size);
    return SUCCESS;
}

int cublasLtMatmulDescSetAttribute(Operation *operation, int attribute, const void *value, size_t size) {
    switch (attribute) {
    case 3: return set(&operation->a_t, sizeof operation->a_t, value, size);
    case 4: return set(&operation->b_t, sizeof operation->b_t, value, size);
    case 7: return set(&operation->epilogue, sizeof operation->epilogue, value, size);
    case 8: return set(&operation->bias, sizeof operation->bias, value, size);
    case 15: return set(&operation->sm_target, sizeof operation->sm_target, value, size);
    default: return INVALID_VALUE;
    }
}

int cublasLtMatmulPreferenceSetAttribute(Preference *preference, int attribute, const void *value, size_t size) {
    return attribute == 1 ? set(&preference->workspace, sizeof preference->workspace, value, size) : INVALID_VALUE;
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, Operation *operation, Layout *a, Layout *b, Layout *c, Layout *d,
                                   Preference *preference, int wanted, Result *results, int *count) {
    if (handle != &descriptors || wanted < 3 || !preference->workspace) return INVALID_VALUE;
    if (a->type != 0 || operation->compute != 68 || operation->scale != 0) return NOT_SUPPORTED;
    if ((operation->epilogue & EPILOGUE_BIAS) && !operation->bias) return INVALID_VALUE;
    for (int i = 0; i < 3; i++) {
        memset(&results[i], 0, sizeof results[i]);
        results[i].algo.data[0] = i;
        results[i].state = i == 1 ? NOT_SUPPORTED : SUCCESS;
        results[i].workspace = 64 * i;
    }
    asked_sm_target = operation->sm_target;
    *count = 3;
    return SUCCESS;
}

/* Of an algorithm it tells its number and its tile alone. */
int cublasLtMatmulAlgoConfigGetAttribute(const Algo *algo, int attribute, void *value, size_t size, size_t *written) {
    const uint32_t told[] = {60 + (uint32_t)algo->data[0], 20};
    if (attribute > 1 || size != sizeof told[0]) return INVALID_VALUE;
    memcpy(value, &told[attribute], size);
    *written = size;
    return SUCCESS;
}

/* D = epilogue(alpha A B + beta C), every matrix stored by columns. */
int cublasLtMatmul(void *handle, Operation *operation, const float *alpha, const float *A, Layout *a, const float *B,
                   Layout *b, const float *beta, const float *C, Layout *c, float *D, Layout *d, const Algo *algo,
                   void *workspace, size_t workspace_bytes, void *stream) {
    if (handle != &descriptors || stream || workspace_bytes != 64 * algo->data[0]) return INVALID_VALUE;
    const uint64_t rows = operation->a_t ? a->columns : a->rows, inner = operation->a_t ? a->rows : a->columns;
    const uint64_t columns = operation->b_t ? b->rows : b->columns;
    if (inner != (operation->b_t ? b->columns : b->rows)) return INVALID_VALUE;
    if (d->rows != rows || d->columns != columns) return INVALID_VALUE;
    if (c->rows != d->rows || c->columns != d->columns) return INVALID_VALUE;
    asked_algorithm = (int)algo->data[0];
    memset(workspace, 255, workspace_bytes);
    for (uint64_t column = 0; column < d->columns; column++)
        for (uint64_t row = 0; row < d->rows; row++) {
            double sum = 0;
            for (uint64_t k = 0; k < inner; k++)
                sum += (double)A[operation->a_t ? k + row * a->ld : row + k * a->ld] *
                       B[operation->b_t ? column + k * b->ld : k + column * b->ld];
            sum *= *alpha;
            if (*beta != 0) sum += *beta * C[row + column * c->ld];
            if (operation->epilogue & EPILOGUE_BIAS) sum += operation->bias[row];
            if ((operation->epilogue & EPILOGUE_RELU) && sum < 0) sum = 0;
            D[row + column * d->ld] = (float)sum;
        }
    return SUCCESS;
}

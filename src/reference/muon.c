/* Muon: five Newton-Schulz steps, and the rows that it and learners compute with. */
#include "reference/muon.h"

#include "op/op.h"

#include <math.h>

/* Four partial sums, which a processor computes in parallel. */
double row_dot(int64_t n, const double *x, const double *y)
{
    double sums[4] = {0, 0, 0, 0};

    for (int64_t i = 0; i < n; i++)
        sums[i % 4] += x[i] * y[i];
    return sums[0] + sums[1] + (sums[2] + sums[3]);
}

void row_add(int64_t n, double factor, const double *x, double *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += factor * x[i];
}

void row_clear(int64_t n, double *x)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = 0;
}

static void transpose(int64_t rows, int64_t columns, const double *x, double *to)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            to[j * rows + i] = x[i * columns + j];
}

/* X <- a X + (b A + c A^2) X, with A = X X^T. B and Y are scratch memory. */
static void muon_step(const double abc[3], int64_t rows, int64_t columns, double *X, double *A, double *B, double *Y)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < rows; j++)
            A[i * rows + j] = row_dot(columns, X + i * columns, X + j * columns);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < rows; j++) /* A is symmetric */
            B[i * rows + j] = abc[1] * A[i * rows + j] + abc[2] * row_dot(rows, A + i * rows, A + j * rows);
    row_clear(rows * columns, Y);
    for (int64_t i = 0; i < rows; i++) {
        row_add(columns, abc[0], X + i * columns, Y + i * columns);
        for (int64_t j = 0; j < rows; j++)
            row_add(columns, B[i * rows + j], X + j * columns, Y + i * columns);
    }
    for (int64_t i = 0; i < rows * columns; i++)
        X[i] = Y[i];
}

/* Computes with D^T if D has more rows than columns. */
void muon_orthogonalize(clattn_muon muon, int64_t rows, int64_t columns, const double *D,
                        double *const scratch[MUON_SCRATCH], double *to)
{
    const int tall = rows > columns;
    const int64_t few = tall ? columns : rows, count = rows * columns;
    double *X = scratch[0], size = sqrt(row_dot(count, D, D)) + 1e-7;

    if (tall)
        transpose(rows, columns, D, X);
    for (int64_t i = 0; i < count; i++)
        X[i] = (tall ? X[i] : D[i]) / size;
    for (int i = 0; i < MUON_STEPS; i++)
        muon_step(learner_muon(muon)[i], few, count / few, X, scratch[1], scratch[2], scratch[3]);
    for (int64_t i = 0; i < count && !tall; i++)
        to[i] = X[i];
    if (tall)
        transpose(few, rows, X, to);
}

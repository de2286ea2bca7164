/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Converts types, shapes and strings between casacore and C. */
#include "casacore_internal.hpp"

static_assert(sizeof(cc::Bool) == 1 && sizeof(cc::uChar) == 1 && sizeof(cc::Short) == 2 && sizeof(cc::Int) == 4 &&
                  sizeof(cc::uInt) == 4 && sizeof(cc::Int64) == 8 && sizeof(cc::Complex) == 8 &&
                  sizeof(cc::DComplex) == 16,
              "casacore's types are laid out as the C types that stand for them");

ccc_type ccc::type_of(cc::DataType type)
{
    switch (type) {
    case cc::TpBool:
    case cc::TpArrayBool:
        return CCC_BOOL;
    case cc::TpUChar:
    case cc::TpArrayUChar:
        return CCC_UINT8;
    case cc::TpShort:
    case cc::TpArrayShort:
        return CCC_INT16;
    case cc::TpInt:
    case cc::TpArrayInt:
        return CCC_INT32;
    case cc::TpUInt:
    case cc::TpArrayUInt:
        return CCC_UINT32;
    case cc::TpInt64:
    case cc::TpArrayInt64:
        return CCC_INT64;
    case cc::TpFloat:
    case cc::TpArrayFloat:
        return CCC_FLOAT;
    case cc::TpDouble:
    case cc::TpArrayDouble:
        return CCC_DOUBLE;
    case cc::TpComplex:
    case cc::TpArrayComplex:
        return CCC_COMPLEX;
    case cc::TpDComplex:
    case cc::TpArrayDComplex:
        return CCC_DCOMPLEX;
    case cc::TpString:
    case cc::TpArrayString:
        return CCC_STRING;
    default:
        return CCC_OTHER;
    }
}

const char *ccc::name_of(ccc_type type)
{
    static const char *const names[] = {"bool",  "uint8",  "int16",   "int32",    "uint32", "int64",
                                        "float", "double", "complex", "dcomplex", "string", "other"};
    return names[type];
}

cc::IPosition ccc::position(int ndim, const int64_t *values)
{
    if (ndim < 0 || ndim > CCC_MAX_DIM) throw Failure(CCC_EARGUMENT, "an array of more than 8 dimensions");
    cc::IPosition out(static_cast<unsigned>(ndim));
    for (int i = 0; i < ndim; i++) out[i] = values[i];
    return out;
}

void ccc::store_shape(const std::string &where, const cc::IPosition &shape, int64_t *out)
{
    if (shape.size() > CCC_MAX_DIM)
        throw Failure(CCC_ESHAPE, where + ": an array of " + std::to_string(shape.size()) + " dimensions");
    for (size_t i = 0; i < shape.size(); i++) out[i] = shape[i];
}

std::string ccc::text_of(const cc::IPosition &shape)
{
    std::string s = "[";
    for (size_t i = 0; i < shape.size(); i++) s += (i ? "," : "") + std::to_string(shape[i]);
    return s + "]";
}

cc::Slicer ccc::slicer_of(const std::string &where, const ccc_slice &s, const cc::IPosition &cell)
{
    if (s.ndim != static_cast<int>(cell.size()))
        throw Failure(CCC_ESHAPE,
                      where + ": a slice of " + std::to_string(s.ndim) + " axes from cells of shape " + text_of(cell));
    for (int i = 0; i < s.ndim; i++)
        if (s.start[i] < 0 || s.count[i] < 1 || s.stride[i] < 1 ||
            s.start[i] + (s.count[i] - 1) * s.stride[i] >= cell[i])
            throw Failure(CCC_ESHAPE, where + ": a slice outside cells of shape " + text_of(cell));
    return cc::Slicer(position(s.ndim, s.start), position(s.ndim, s.count), position(s.ndim, s.stride));
}

std::vector<std::string> ccc::strings_in(const cc::Array<cc::String> &array)
{
    std::vector<std::string> out;
    for (const auto &s : array) out.push_back(s);
    return out;
}

char **ccc::block_of(const std::vector<std::string> &strings)
{
    size_t bytes = (strings.size() + 1) * sizeof(char *);
    for (const auto &s : strings) bytes += s.size() + 1;
    char **block = static_cast<char **>(std::malloc(bytes));
    if (!block) throw std::bad_alloc();
    char *at = reinterpret_cast<char *>(block + strings.size() + 1);
    for (size_t i = 0; i < strings.size(); i++) {
        block[i] = at;
        std::memcpy(at, strings[i].c_str(), strings[i].size() + 1);
        at += strings[i].size() + 1;
    }
    block[strings.size()] = nullptr;
    return block;
}

char *ccc::copy_of(const std::string &s)
{
    char *copy = static_cast<char *>(std::malloc(s.size() + 1));
    if (!copy) throw std::bad_alloc();
    std::memcpy(copy, s.c_str(), s.size() + 1);
    return copy;
}

void ccc_free(void *p)
{
    std::free(p);
}

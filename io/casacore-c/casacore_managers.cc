/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Checks the storage managers and engines of a table before casacore opens it.
 *
 * casacore loads an unknown storage manager or engine from the shared library of that name. A name with a slash is a
 * path, so a table can bring its own library. VirtualTaQLColumn evaluates an expression of the table, and TaQL can
 * create and remove tables. Therefore this code first reads the headers up to these names, with casacore's own reader
 * and in its order. Tables that casacore opens together with a table are checked in the same way.
 *
 * Another process may replace the table between this check and casacore's reading. Therefore, while casacore opens a
 * table, programs that are linked to this library load only the libraries of the known managers, and VirtualTaQLColumn
 * cannot be constructed.
 */
#include "casacore_internal.hpp"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include <dlfcn.h>
#include <sys/stat.h>

#include <casacore/casa/Containers/BlockIO.h>
#include <casacore/casa/IO/AipsIO.h>
#include <casacore/casa/IO/ArrayIO.h>
#include <casacore/casa/OS/Path.h>
#include <casacore/tables/DataMan/DataManager.h>
#include <casacore/tables/Tables/TableAttr.h>
#include <casacore/tables/Tables/TableDesc.h>
#include <casacore/tables/Tables/TableRecord.h>

using namespace ccc;

namespace {

/* The longest accepted chain of tables that refer to each other. casacore itself makes chains of two or three. */
constexpr size_t MOST_DEEP = 32;
constexpr size_t SHOWN_TYPE = 80;

const char TAQL_ENGINE[] = "VirtualTaQLColumn";
const char TAQL_REFUSED[] = "a column of VirtualTaQLColumn, which would evaluate any TaQL expression that the table "
                            "brings, and is not opened";

/* Prefix of the name of the engine, and suffix of the column keyword that names the table with the data. */
const char FORWARDING[] = "ForwardColumn", FORWARDS_TO[] = "_ForwardColumn_TableName";

/* The header of a table. */
struct Header {
    bool is_plain = false; /* has its own columns */
    /* tables that casacore opens with it: its parent, its members, tables with its columns */
    std::vector<std::string> opened;
    std::vector<std::string> joined; /* for a concatenation: keywords of its members whose tables casacore opens too */
    /* by keyword of the table, or of a column, whose name then comes first */
    std::map<std::string, std::string> subtables;
};

/*
 * The managers that may be used but are not part of casacore: those of observatories, which casacore loads from the
 * directories of system libraries.
 */
const std::set<std::string> &plug_ins()
{
    static const std::set<std::string> names{"DyscoStMan",       "LofarStMan",   "SiscoStMan", "Adios2StMan",
                                             "AntennaPairStMan", "StokesIStMan", "UvwStMan"};
    return names;
}

bool is_known(const std::string &type)
{
    if (type == TAQL_ENGINE) return false;
    return plug_ins().count(type) > 0 || cc::DataManager::isRegistered(type);
}

void require_known(const std::string &type, const std::string &shown)
{
    if (is_known(type)) return;
    if (type == TAQL_ENGINE) throw Failure(CCC_EREFUSED, shown + ": " + TAQL_REFUSED);
    std::string name = type.substr(0, SHOWN_TYPE);
    std::replace(name.begin(), name.end(), '\0', '?');
    throw Failure(CCC_EREFUSED, shown + ": the storage manager or engine '" + name +
                                    (type.size() > SHOWN_TYPE ? ".." : "") + "' is not known, so it is not loaded");
}

bool begins(const std::string &name, const char *with)
{
    return std::strncmp(name.c_str(), with, std::strlen(with)) == 0;
}

std::string table_name(const std::string &name, const std::string &parent)
{
    return cc::Path(cc::Path::addDirectory(name, parent)).absoluteName();
}

void add_subtables(Header &header, const cc::TableRecord &keys, const std::string &prefix)
{
    for (cc::uInt i = 0; i < keys.nfields(); i++) {
        std::string name = prefix;
        name += keys.name(i);
        if (keys.dataType(i) == cc::TpRecord) add_subtables(header, keys.subRecord(i), name + '.');
        if (keys.dataType(i) == cc::TpTable)
            header.subtables[name] = cc::Path(keys.tableAttributes(keys.name(i)).name()).absoluteName();
    }
}

/* A manager of a table: its type, and the number of its files. */
struct Manager {
    std::string type;
    cc::uInt number = 0;
};

/* Read the managers, which follow the description of columns, and check their names. casacore constructs each manager as
 * soon as it has read the name. */
std::vector<Manager> read_managers(cc::AipsIO &ios, const std::string &shown)
{
    std::vector<Manager> managers;
    cc::Int version, option, size;
    cc::uInt n_row, next, n, number;
    cc::uInt64 n_row_64;
    cc::String type;
    ios >> version;
    if (version < -2)
        ios >> n_row_64 >> option >> size;
    else if (version < 0)
        ios >> n_row;
    ios >> next >> n;
    for (cc::uInt i = 0; i < n; i++) {
        ios >> type >> number;
        require_known(type, shown);
        managers.push_back({type, number});
    }
    return managers;
}

/* Read the description of columns. Return the keywords of a table of the first version. */
cc::TableRecord read_description(cc::AipsIO &ios, cc::uInt version, const std::string &real, cc::TableDesc &desc)
{
    const cc::TableAttr attributes(real, false, cc::TableLock(cc::TableLock::NoLocking));
    desc.getFile(ios, attributes);
    cc::TableRecord old_keys;
    if (version == 1) old_keys.getRecord(ios, attributes);
    return old_keys;
}

void read_plain(cc::AipsIO &ios, cc::uInt version, const std::string &real, const std::string &shown, Header &header)
{
    cc::TableDesc desc("", cc::TableDesc::Scratch);
    const cc::TableRecord old_keys = read_description(ios, version, real, desc);
    bool forwards = false;
    for (const Manager &m : read_managers(ios, shown)) forwards = forwards || begins(m.type, FORWARDING);
    header.is_plain = true;
    add_subtables(header, desc.keywordSet(), "");
    add_subtables(header, old_keys, "");
    for (cc::uInt i = 0; i < desc.ncolumn(); i++) {
        const cc::ColumnDesc &column = desc.columnDesc(i);
        const cc::TableRecord &keys = column.keywordSet();
        /* casacore constructs this manager when it copies the table. */
        if (!column.dataManagerType().empty()) require_known(column.dataManagerType(), shown);
        add_subtables(header, keys, column.name() + '/');
        for (cc::uInt k = 0; k < keys.nfields(); k++)
            if (forwards && keys.dataType(k) == cc::TpString && begins(keys.name(k), FORWARDS_TO))
                header.opened.push_back(table_name(keys.asString(k), real));
    }
}

void read_concatenation(cc::AipsIO &ios, const std::string &real, Header &header)
{
    cc::uInt n;
    cc::String name;
    cc::Block<cc::String> joined;
    ios.getstart("ConcatTable");
    ios >> n;
    for (cc::uInt i = 0; i < n; i++) {
        ios >> name;
        header.opened.push_back(table_name(name, real));
    }
    ios >> joined;
    header.joined.assign(joined.begin(), joined.end());
}

/* Read the first fields of a header. Return its version. */
cc::uInt read_start(cc::AipsIO &ios, cc::uInt &format, cc::String &kind)
{
    cc::uInt n_row;
    cc::uInt64 n_row_64;
    const cc::uInt version = ios.getstart("Table");
    if (version > 2)
        ios >> n_row_64;
    else
        ios >> n_row;
    ios >> format >> kind;
    return version;
}

/* Read a header. Throws Failure for the first unknown manager. */
Header read_header(const std::string &real, const std::string &shown)
{
    Header header;
    cc::AipsIO ios(real + "/table.dat");
    cc::uInt format;
    cc::String kind, name;
    const cc::uInt version = read_start(ios, format, kind);
    if (version <= 3 && kind == "PlainTable") {
        read_plain(ios, version, real, shown, header);
    } else if (version <= 3 && kind == "RefTable") {
        ios.getstart("RefTable");
        ios >> name;
        header.opened.push_back(table_name(name, real));
    } else if (version <= 3 && kind == "ConcatTable") {
        read_concatenation(ios, real, header);
    } else {
        throw Failure(CCC_EFAILED, "truncated or corrupt: " + shown + " (a table of an unknown kind)");
    }
    ios.close();
    return header;
}

/* Checks a table and the tables that casacore opens with it, each table once. */
class Walk {
  public:
    /* In messages, `shown` replaces `real`, with which the names of all tables below it begin. */
    Walk(std::string real, std::string shown) : real_(std::move(real)), shown_(std::move(shown)) {}

    /* Check a table and those that casacore opens with it. A missing table is reported by casacore. */
    const Header *visit(const std::string &name)
    {
        struct stat info;
        if (::stat((name + "/table.dat").c_str(), &info) != 0 || ::stat(name.c_str(), &info) != 0) return nullptr;
        const Place place{info.st_dev, info.st_ino};
        if (above_.count(place))
            throw Failure(CCC_EFAILED, "truncated or corrupt: " + shown(name) + " (refers to itself)");
        const auto seen = headers_.find(place);
        if (seen != headers_.end()) return &seen->second;
        if (above_.size() >= MOST_DEEP)
            throw Failure(CCC_EFAILED, "truncated or corrupt: " + shown(name) + " (too many tables refer to the next)");
        check_kinds(name, shown(name));
        Header &header = headers_[place] = read_header(name, shown(name));
        above_.insert(place);
        for (const auto &next : header.opened) {
            const Header *member = visit(next);
            if (!member) continue;
            for (const auto &keyword : header.joined)
                if (member->subtables.count(keyword)) visit(member->subtables.at(keyword));
            /* A table without its own columns has the keywords of the first that it refers to. */
            if (!header.is_plain && &next == &header.opened[0]) header.subtables = member->subtables;
        }
        above_.erase(place);
        return &header;
    }

    /*
     * Check also all tables that keywords of these tables name, and so on. A header that cannot be read is not an error
     * here: casacore opens only some of these tables, and it cannot read that header either.
     */
    void visit_all(const std::string &name)
    {
        std::vector<std::string> next{name};
        std::set<Place> done;
        while (!next.empty()) {
            for (const auto &table : next) {
                try {
                    above_.clear();
                    visit(table);
                } catch (const Failure &) {
                    throw;
                } catch (const std::exception &) {
                }
            }
            next.clear();
            for (const auto &[place, header] : headers_)
                if (done.insert(place).second)
                    for (const auto &[keyword, subtable] : header.subtables) next.push_back(subtable);
        }
    }

  private:
    using Place = std::pair<dev_t, ino_t>;

    std::string shown(const std::string &name) const
    {
        return name.compare(0, real_.size(), real_) == 0 ? shown_ + name.substr(real_.size()) : name;
    }

    const std::string real_, shown_;
    std::map<Place, Header> headers_;
    std::set<Place> above_;
};

/* Number of calls in which this thread is opening a table. */
thread_local int n_opening = 0;

/* Return whether a library is one that casacore loads for a known manager: "lib" or "libcasa_", the manager's name in
 * lower case, and a suffix. */
bool is_of_plug_in(std::string file)
{
    for (const char *prefix : {"libcasa_", "lib"})
        if (begins(file, prefix)) {
            file.erase(0, std::strlen(prefix));
            break;
        }
    file = file.substr(0, file.find('.'));
    for (std::string name : plug_ins()) {
        std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
        if (file == name) return true;
    }
    return false;
}

/* Read which manager each column has, by its number; false if a column is stored in an old way. */
bool read_columns(cc::AipsIO &ios, const cc::TableDesc &desc, std::vector<cc::uInt> &manager)
{
    for (cc::uInt i = 0; i < desc.ncolumn(); i++) {
        cc::uInt version, of_kind, number;
        cc::String name;
        cc::Bool has_shape = false;
        cc::IPosition shape;
        ios >> version;
        if (version != 2) return false;
        ios >> name >> of_kind >> number;
        if (of_kind != 1) return false;
        if (!desc.columnDesc(i).isScalar()) ios >> has_shape;
        if (has_shape) ios >> shape;
        manager.push_back(number);
    }
    return true;
}

cc::DataManager *refuse_taql(const cc::String &, const cc::Record &)
{
    throw Failure(CCC_EREFUSED, TAQL_REFUSED);
}

} // namespace

/* The dynamic linker gives casacore this function instead of that of the C library. */
extern "C" void *dlopen(const char *file, int mode) noexcept
{
    using Open = void *(const char *, int);
    static Open *const open = reinterpret_cast<Open *>(::dlsym(RTLD_NEXT, "dlopen"));
    /* A name that does not exist fails, and sets the message of dlerror. */
    return open(n_opening && file && !is_of_plug_in(file) ? "/nonexistent/library" : file, mode);
}

ccc::KnownManagersOnly::KnownManagersOnly() : own_(cc::DataManager::getCtor(TAQL_ENGINE))
{
    cc::DataManager::registerCtor(TAQL_ENGINE, refuse_taql);
    n_opening++;
}

ccc::KnownManagersOnly::~KnownManagersOnly()
{
    cc::DataManager::registerCtor(TAQL_ENGINE, own_);
    n_opening--;
}

void ccc::check_managers(const std::string &real, const std::string &shown)
{
    Walk(real, shown).visit(cc::Path(real).absoluteName());
}

void ccc::check_managers_of_all(const cc::Table &table, const std::string &real, const std::string &shown)
{
    Walk walk(real, shown);
    for (const cc::String &name : table.getPartNames(true)) walk.visit_all(cc::Path(name).absoluteName());
}

int ccc_scalar_places(ccc_table *t, const char *const *columns, int n, ccc_scalar_place *place)
{
    for (int i = 0; i < n; i++) place[i] = {};
    return guarded(t, nullptr, [&] {
        if (!t->table.isRootTable() || t->table.tableType() != cc::Table::Plain) return;
        cc::AipsIO ios(t->real + "/table.dat");
        cc::uInt format;
        cc::String kind;
        cc::TableDesc desc("", cc::TableDesc::Scratch);
        std::vector<cc::uInt> number;
        const cc::uInt version = read_start(ios, format, kind);
        if (version < 2 || version > 3 || kind != "PlainTable") return;
        read_description(ios, version, t->real, desc);
        const std::vector<Manager> managers = read_managers(ios, t->path);
        if (!read_columns(ios, desc, number)) return;
        for (const Manager &m : managers) {
            cc::uInt n_byte;
            cc::uChar *bytes;
            ios.getnew(n_byte, bytes);
            const std::unique_ptr<cc::uChar[]> header(bytes);
            const auto n_column = static_cast<int>(std::count(number.begin(), number.end(), m.number));
            int column = -1;
            for (cc::uInt k = 0; k < desc.ncolumn(); k++) {
                if (number[k] != m.number) continue;
                column++;
                for (int i = 0; i < n; i++) {
                    if (desc.columnDesc(k).name() != columns[i] || !desc.columnDesc(k).isScalar()) continue;
                    ccc_scalar_place &p = place[i];
                    std::strncpy(p.manager_type, m.type.c_str(), sizeof p.manager_type - 1);
                    p.type = type_of(desc.columnDesc(k).dataType());
                    p.is_little_endian = format != 0;
                    p.manager_file = static_cast<int>(m.number);
                    p.column = column;
                    p.n_column = n_column;
                    p.header = array_of(std::vector<unsigned char>(bytes, bytes + n_byte));
                    p.n_header = n_byte;
                }
            }
        }
    });
}

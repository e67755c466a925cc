import Glibc

/// The paths of the programs `causeway` and `causeway-lab`, which are in one directory. The lab starts `causeway` with
/// a command line, as users do.
struct ProgramPaths {
    let lab: String
    let causeway: String

    /// Finds the programs in the directory of the running program, which is the lab.
    init() throws(LabError) {
        try self.init(directory: Self.ownDirectory)
    }

    /// - Throws: an error if one of the programs does not exist.
    init(directory: String) throws(LabError) {
        lab = "\(directory)/causeway-lab"
        causeway = "\(directory)/causeway"
        for program in [lab, causeway] where access(program, X_OK) != 0 {
            throw LabError(
                """
                the program \(program) does not exist: causeway and causeway-lab must be in the same directory; build \
                both
                """
            )
        }
    }

    /// The directory of this process's program file.
    static var ownDirectory: String {
        var buffer = [UInt8](repeating: 0, count: 4_096)
        let count = buffer.withUnsafeMutableBytes { bytes in
            bytes.bindMemory(to: CChar.self).baseAddress.map { readlink("/proc/self/exe", $0, bytes.count) } ?? 0
        }
        let file = String(decoding: buffer.prefix(max(0, count)), as: UTF8.self)
        return String(file[..<(file.lastIndex(of: "/") ?? file.startIndex)])
    }
}

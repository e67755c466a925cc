import Foundation

/// A directory of the demo's own, for logs, keys and configuration.
struct WorkDirectory {
    let path: String

    init() throws(LabError) {
        let base = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        var template = Array("\(base)/causeway-demo.XXXXXX".utf8CString)
        guard let made = mkdtemp(&template) else { throw LabError("a directory in \(base)", errno: errno) }
        path = String(cString: made)
    }

    /// What is not kept is gone; what is kept is named.
    func remove(keeping: Bool) {
        if keeping {
            FileHandle.standardError.write(Data("Logs and configuration are in \(path)\n".utf8))
        } else {
            try? FileManager.default.removeItem(atPath: path)
        }
    }
}

import Foundation

/// A directory for the logs, keys and configuration of a run.
struct WorkDirectory {
    let path: String

    init() throws(LabError) {
        let base = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        var template = Array("\(base)/causeway-demo.XXXXXX".utf8CString)
        guard let made = mkdtemp(&template) else { throw LabError("no directory in \(base)", errno: errno) }
        path = String(cString: made)
    }

    /// Removes the directory, or prints its path if the directory is kept.
    func remove(keeping: Bool) {
        if keeping {
            FileHandle.standardError.write(Data("Logs and configuration are in \(path)\n".utf8))
        } else {
            try? FileManager.default.removeItem(atPath: path)
        }
    }
}

import Foundation
import LiveActivity

/// Files in one directory with which another program can check a run. Most have lines of JSON.
struct Evidence {
    let directory: String

    /// The commands that the producer sent.
    var commands: String { "\(directory)/commands.jsonl" }
    /// The records of the results topic.
    var results: String { "\(directory)/results.jsonl" }
    /// The pushes that arrived at APNs.
    var pushes: String { "\(directory)/pushes.jsonl" }
    /// The settings of the worker's policy.
    var policy: String { "\(directory)/policy.json" }

    /// Creates the directory if it does not exist, and removes the files of an earlier run.
    init(directory: String) throws(LabError) {
        self.directory = directory
        guard mkdir(directory, 0o700) == 0 || errno == EEXIST else { throw LabError(directory, errno: errno) }
        for file in [commands, results, pushes, policy] {
            guard unlink(file) == 0 || errno == ENOENT else { throw LabError(file, errno: errno) }
        }
    }

    func journal() throws(LabError) -> CommandJournal { try CommandJournal(path: commands) }

    /// Writes the policy. It has the budget for frequent updates, because the phones of a demo allow these.
    func write(_ numbers: Policy) throws(LabError) {
        let budget = numbers.frequentBudget
        let object = JSONWriter.object { json in
            json.member("spacingMilliseconds", Int(numbers.spacingMilliseconds))
            json.member("budget") { json in
                json.member("pushes", budget.pushes)
                json.member("refillPerHour", budget.refillPerHour)
                json.member("reservedForAlerts", budget.reservedForAlerts)
            }
        }
        try TextFile.write(String(decoding: object, as: UTF8.self) + "\n", to: policy)
    }
}

/// Counts the lines of a file that grows.
struct LineCount {
    private static let chunkBytes = 1 << 20

    let path: String
    private var offset: off_t = 0
    private var lines = 0

    init(path: String) {
        self.path = path
    }

    /// Returns the number of complete lines so far.
    mutating func count() throws(LabError) -> Int {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw LabError(path, errno: errno) }
        defer { close(descriptor) }
        var chunk = [UInt8](repeating: 0, count: Self.chunkBytes)
        while true {
            let count = pread(descriptor, &chunk, chunk.count, offset)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw LabError(path, errno: errno) }
            if count == 0 { return lines }
            offset += off_t(count)
            lines += chunk[..<count].count { $0 == UInt8(ascii: "\n") }
        }
    }
}

import Glibc

/// The season's data, read from where it lies.
struct SeasonFiles {
    static let directory = "Config/examples/season"
    static let matchesFile = "ipl-2018-matches.csv"
    static let deliveriesFile = "ipl-2018-deliveries.csv"

    let season: Season
    /// Declares the app and its types to the simulator.
    let shapesFile: String

    /// - Parameter directory: nil: it is looked for.
    init(directory given: String?) throws(DemoError) {
        let directory = if let given { given } else { try Self.found() }
        let matches = try TextFile.read("\(directory)/\(Self.matchesFile)")
        let deliveries = try TextFile.read("\(directory)/\(Self.deliveriesFile)")
        shapesFile = "\(directory)/shapes.json"
        do throws(SeasonError) {
            season = try Season(matchesFile: matches, deliveriesFile: deliveries)
        } catch {
            throw DemoError("\(directory): \(error)")
        }
    }

    /// Below the working directory or, for a program that was built in its repository, below a directory above it.
    private static func found() throws(DemoError) -> String {
        var candidates = [directory]
        var place = executable
        while let slash = place.lastIndex(of: "/") {
            place = String(place[..<slash])
            candidates.append("\(place)/\(directory)")
        }
        guard let found = candidates.first(where: { access("\($0)/\(matchesFile)", R_OK) == 0 }) else {
            throw DemoError("the season's data is not here: expected \(directory)/\(matchesFile), or give --data")
        }
        return found
    }

    /// This program's own file.
    static var executable: String {
        var buffer = [UInt8](repeating: 0, count: 4_096)
        let count = buffer.withUnsafeMutableBytes { bytes in
            bytes.bindMemory(to: CChar.self).baseAddress.map { readlink("/proc/self/exe", $0, bytes.count) } ?? 0
        }
        return String(decoding: buffer.prefix(max(0, count)), as: UTF8.self)
    }
}

import Glibc

/// Reads the demo's season from CSV files: the matches of the cricket league IPL in 2018.
struct SeasonFiles {
    static let directory = "Config/examples/season"
    static let matchesFile = "ipl-2018-matches.csv"
    static let ballsFile = "ipl-2018-deliveries.csv"

    let season: Season
    /// The file that declares the app and its types to the simulator.
    let shapesPath: String

    /// - Parameter directory: the directory of the files; nil: search for it.
    init(directory requestedDirectory: String?) throws(LabError) {
        let directory = if let requestedDirectory { requestedDirectory } else { try Self.findDirectory() }
        let matches = try TextFile.read("\(directory)/\(Self.matchesFile)")
        let balls = try TextFile.read("\(directory)/\(Self.ballsFile)")
        shapesPath = "\(directory)/shapes.json"
        do throws(SeasonError) {
            season = try Season(matchesFile: matches, ballsFile: balls)
        } catch {
            throw LabError("\(directory): \(error)")
        }
    }

    /// Searches for the data in the working directory, then in each directory above the program. So a program that was
    /// built in its repository finds the data.
    private static func findDirectory() throws(LabError) -> String {
        var candidates = [directory]
        var parent = ProgramPaths.ownDirectory
        while let slash = parent.lastIndex(of: "/") {
            candidates.append("\(parent)/\(directory)")
            parent = String(parent[..<slash])
        }
        guard let found = candidates.first(where: { access("\($0)/\(matchesFile)", R_OK) == 0 }) else {
            throw LabError(
                "the season's data was not found at \(directory)/\(matchesFile); name its directory with --data"
            )
        }
        return found
    }
}

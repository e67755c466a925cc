import ArgumentParser
import CausewayCommandLine
import Foundation

/// The measurements of a run, and whether the run was successful.
protocol RunFigures: Encodable {
    var hasSucceeded: Bool { get }
}

/// A subcommand of the lab that starts a deployment of its own, and sends it the commands of a season of matches.
protocol SeasonCommand: AsyncParsableCommand {
    associatedtype Figures: RunFigures

    /// The directory of the season's files; nil: `SeasonFiles` searches for it.
    var data: String? { get }
    /// Whether the work directory is kept after the run.
    var keep: Bool { get }
    /// The file for the figures, as JSON.
    var json: String? { get }

    /// Starts the deployment, sends it the season's commands, and returns the measurements. Throws an error if the user
    /// interrupts the run.
    func playSeason(_ files: SeasonFiles, on deployment: Deployment, until interruption: Interruption) throws(LabError)
        -> Figures
    func makeReport(of figures: Figures) -> String
    /// Called after the figures are printed, for example to wait until the user ends the run. The deployment runs until
    /// this method returns.
    func waitBeforeStop(on deployment: Deployment, until interruption: Interruption)
}

extension SeasonCommand {
    func run() async throws {
        // Only one thread at a time uses `self`: the task waits while the thread of `BlockingWork` runs.
        nonisolated(unsafe) let work: () throws -> Void = playReportAndCheck
        try await BlockingWork.run { try work() }
    }

    private func playReportAndCheck() throws {
        do {
            guard try playAndReport() else { throw ExitCode(1) }
        } catch let error as LabError {
            FileHandle.standardError.write(Data("causeway-lab \(Self._commandName): \(error)\n".utf8))
            throw ExitCode(1)
        }
    }

    func waitBeforeStop(on deployment: Deployment, until interruption: Interruption) {}

    /// Plays the season on a new deployment, and prints the figures.
    ///
    /// - Returns: whether the run was successful.
    private func playAndReport() throws(LabError) -> Bool {
        let interruption = Interruption()
        let programs = try ProgramPaths()
        let files = try SeasonFiles(directory: data)
        let directory = try WorkDirectory()
        let deployment = try Deployment(directory: directory.path, programs: programs)
        defer {
            deployment.stop()
            directory.remove(keeping: keep)
        }
        let figures = try playSeason(files, on: deployment, until: interruption)
        print(makeReport(of: figures))
        if let json { try TextFile.write(figures: figures, to: json) }
        waitBeforeStop(on: deployment, until: interruption)
        return figures.hasSucceeded
    }
}

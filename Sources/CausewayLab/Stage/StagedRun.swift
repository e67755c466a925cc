import ArgumentParser
import CausewayCommandLine
import Foundation

/// The measurements of a run, and whether the run was successful.
protocol RunFigures: Encodable {
    var isGood: Bool { get }
}

/// A command that plays a season's records on a stage of its own.
protocol StagedRun: ParsableCommand {
    associatedtype Figures: RunFigures

    /// The directory of the season's records; nil for the project's own.
    var data: String? { get }
    /// Whether the work directory is kept.
    var keep: Bool { get }
    /// The file for the figures, as JSON.
    var json: String? { get }

    func play(_ files: SeasonFiles, on stage: Stage, until interruption: Interruption) throws(LabError) -> Figures
    /// The figures for people.
    func text(_ figures: Figures) -> String
}

extension StagedRun {
    func run() throws {
        do {
            let figures = try figures()
            print(text(figures))
            if let json { try TextFile.write(figures: figures, to: json) }
            guard figures.isGood else { throw ExitCode(1) }
        } catch let error as LabError {
            FileHandle.standardError.write(Data("causeway-lab \(Self._commandName): \(error)\n".utf8))
            throw ExitCode(1)
        }
    }

    private func figures() throws(LabError) -> Figures {
        let interruption = Interruption()
        let programs = try ProgramFiles()
        let files = try SeasonFiles(directory: data)
        let directory = try WorkDirectory()
        let stage = try Stage(directory: directory.path, programs: programs)
        defer {
            stage.stop()
            directory.remove(keeping: keep)
        }
        return try play(files, on: stage, until: interruption)
    }
}

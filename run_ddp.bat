@echo off
rem Usage: run_ddp.bat [ranks] [options of train]      Builds step 03 inside WSL and runs it.
where wsl >nul 2>nul
if errorlevel 1 (
    echo run_ddp.bat: there is no WSL here: see docs/00_setup.md, "Windows"
    exit /b 1
)
wsl --cd "%~dp0." make -s 03 || exit /b 1
wsl --cd "%~dp0." ./03_torchrun_env/run.sh %*
exit /b %errorlevel%
